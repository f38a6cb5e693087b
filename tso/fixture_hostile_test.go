package tso

import (
	"bytes"
	"context"
	"io"
	"net"
	"slices"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// attackerHost is the address that attacks come from; the honest client has another.
const attackerHost = "127.0.0.2"

// writeFrames sends a part of a message, in frames of some length.
func writeFrames(framer *http2.Framer, stream uint32, data []byte, length int) error {
	for part := range slices.Chunk(data, min(length, 16<<10)) {
		if err := framer.WriteData(stream, false, part); err != nil {
			return err
		}
	}
	return nil
}

// dialerFrom connects from an address of this machine.
func dialerFrom(host string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}
}

func mustConnectFrom(t testing.TB, host, address string) net.Conn {
	t.Helper()
	conn, err := dialerFrom(host).Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// connectFrom returns a gRPC connection from an address of this machine.
func connectFrom(t testing.TB, host, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dialerFrom(host).DialContext(ctx, "tcp", address)
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// introduce completes the handshake on a connection in plaintext. What is written goes to w.
func introduce(conn net.Conn, w io.Writer) (*http2.Framer, error) {
	_, err := io.WriteString(w, http2Preface+settings)
	return http2.NewFramer(w, conn), err
}

// beginCall sends the headers of a call.
func beginCall(framer *http2.Framer, stream uint32, method string, header ...[2]string) error {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range append([][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "x"},
		{"content-type", "application/grpc"}, {"te", "trailers"},
	}, header...) {
		_ = encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	return framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true})
}
