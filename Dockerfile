FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o /skald ./cmd/skald

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /skald /skald
EXPOSE 8080
ENTRYPOINT ["/skald"]
CMD ["serve"]
