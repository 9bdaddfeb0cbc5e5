# docker build -t sluice .
# docker run -p 127.0.0.1:8019:8019 -v sluice-data:/var/lib/sluice -e SLUICE_ROOT_KEY=... sluice
#
# Inside it listens for other machines, so it wants a root_key, of at least 32
# characters: head -c 32 /dev/urandom | base64

FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=unknown
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /sluice ./cmd/sluice

FROM debian:bookworm-slim
# Redis as a program only, for the embedded one; Debian's package starts
# nothing inside an image. It serves SQLite and the embedded Redis by itself.
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends redis-server ca-certificates \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 10001 --home-dir /var/lib/sluice --shell /usr/sbin/nologin sluice \
 && install -d -o sluice -g sluice -m 0700 /var/lib/sluice
COPY --from=build /sluice /usr/local/bin/sluice
USER 10001
WORKDIR /var/lib/sluice
VOLUME /var/lib/sluice
# Inside the container's own network; publish it on loopback, as above.
ENV SLUICE_LISTEN=0.0.0.0:8019 SLUICE_DATA=/var/lib/sluice
EXPOSE 8019
STOPSIGNAL SIGTERM
# It lives while it waits for Redis or the database: restarting it would not help.
HEALTHCHECK --interval=10s --timeout=6s --start-period=60s --retries=3 CMD ["/usr/local/bin/sluice", "health"]
ENTRYPOINT ["/usr/local/bin/sluice"]
CMD ["serve"]
