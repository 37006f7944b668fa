# The provider, at its own path and at upstream's path, for manifests that name the command.
FROM scratch
LABEL org.opencontainers.image.title="provider" \
      org.opencontainers.image.description="A cloud provider for Kubernetes on vSphere" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY . /
USER 65532:65532
ENV PATH=/:/bin
STOPSIGNAL SIGTERM
ENTRYPOINT ["/provider"]
