# pml, built from this directory. docker-compose.yml uses it.
#
#     docker build --build-arg PML_COMMIT="$(git rev-parse HEAD)" -t pml .
FROM rust:1.95.0-bookworm AS build
WORKDIR /pml
# The image brings this compiler; rust-toolchain.toml would make it fetch tools that a build does not need.
ENV RUSTUP_TOOLCHAIN=1.95.0
# What `pml --version` shows.
ARG PML_COMMIT=""
COPY . .
RUN cargo build --release --locked

FROM debian:bookworm-slim
# What encrypted connections are checked against. The newest one is the right one, so its version is not pinned.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/*
# By number, so that a host which asks for a user other than root can see that it is one.
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/pml pml
COPY --from=build /pml/target/release/pml /usr/local/bin/pml
USER 10001
WORKDIR /var/lib/pml
VOLUME ["/var/lib/pml"]
EXPOSE 8080
ENTRYPOINT ["pml"]
CMD ["serve"]
