# syntax=docker/dockerfile:1

# The program "percolator" alone, on a base without a shell or a package manager.
#
#   docker build --build-arg VERSION=v1.2.3 --build-arg REVISION="$(git rev-parse HEAD)" -t percolator .
#   docker run --rm percolator version

ARG GO_VERSION=1.26

FROM --platform=$BUILDPLATFORM golang:${GO_VERSION}-bookworm AS build
WORKDIR /src
ENV CGO_ENABLED=0 GOFLAGS=-mod=readonly GOWORK=off
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod \
    go mod download
COPY . .
ARG TARGETOS TARGETARCH VERSION REVISION DATE
# Without paths and without the date of the build: the same source gives the same bytes.
RUN --mount=type=cache,target=/go/pkg/mod \
    --mount=type=cache,target=/root/.cache/go-build \
    GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -buildvcs=false \
        -ldflags "-s -w -X main.stampedVersion=$VERSION -X main.stampedRevision=$REVISION -X main.stampedDate=$DATE" \
        -o /out/percolator ./cmd/percolator

FROM gcr.io/distroless/static-debian12:nonroot
ARG VERSION REVISION DATE
LABEL org.opencontainers.image.title="percolator" \
      org.opencontainers.image.description="Transactions and notifications on Cloud Bigtable: the timestamp oracle and the tools of its operators" \
      org.opencontainers.image.source="https://github.com/gopercolator/percolator" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.created="$DATE"
COPY --from=build /out/percolator /usr/local/bin/percolator
COPY LICENSE /LICENSE
USER 65532:65532
# The oracle, and its /healthz, /readyz and /metrics.
EXPOSE 7070 7071
# Of "tso serve"; other commands end by themselves or answer for themselves.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["/usr/local/bin/percolator", "--healthcheck"]
ENTRYPOINT ["/usr/local/bin/percolator"]
CMD ["tso", "serve"]
