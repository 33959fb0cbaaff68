# The program, the four libraries it is linked to, and nothing else: no shell, no package manager, no root.
FROM rust:1.95.0-slim-trixie AS build
# The image's own toolchain is the one that rust-toolchain.toml names.
ENV RUSTUP_TOOLCHAIN=1.95.0
WORKDIR /build
COPY . .
RUN cargo build --locked --profile dist --bin headroom \
    && .ci/image-root target/dist/headroom /root-of-image

FROM scratch
COPY --from=build /root-of-image /
USER 65532:65532
# Own metrics, health and state; the external metrics API.
EXPOSE 8080 6443
ENTRYPOINT ["/headroom"]
