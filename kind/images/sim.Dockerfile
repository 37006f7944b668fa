# The simulator. `docker run vsphere-lab/sim serve` prints the same as the binary.
FROM scratch
LABEL org.opencontainers.image.title="sim" \
      org.opencontainers.image.description="A fake vCenter, Supervisor and workload cluster over one simulated world" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY . /
USER 65532:65532
ENV PATH=/
HEALTHCHECK --interval=5s --timeout=3s --start-period=5s CMD ["/sim", "health"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["/sim"]
CMD ["serve"]
