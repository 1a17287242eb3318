# pml, built from this directory. docker-compose.yml uses it.
FROM rust:1.95-bookworm AS build
WORKDIR /pml
COPY . .
RUN cargo build --release --locked

FROM debian:bookworm-slim
RUN useradd --system --create-home --home-dir /var/lib/pml pml
COPY --from=build /pml/target/release/pml /usr/local/bin/pml
USER pml
WORKDIR /var/lib/pml
ENTRYPOINT ["pml"]
CMD ["serve"]
