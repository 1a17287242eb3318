# pml, built from this directory. docker-compose.yml uses it.
FROM rust:1.95.0-bookworm AS build
WORKDIR /pml
# The image brings this compiler; rust-toolchain.toml would make it fetch tools that a build does not need.
ENV RUSTUP_TOOLCHAIN=1.95.0
COPY . .
RUN cargo build --release --locked

FROM debian:bookworm-slim
# What encrypted connections are checked against.
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/*
RUN useradd --system --create-home --home-dir /var/lib/pml pml
COPY --from=build /pml/target/release/pml /usr/local/bin/pml
USER pml
WORKDIR /var/lib/pml
ENTRYPOINT ["pml"]
CMD ["serve"]
