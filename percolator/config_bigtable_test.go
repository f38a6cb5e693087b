package percolator_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"cloud.google.com/go/bigtable"
	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// outside counts what Google's client sends to Cloud Monitoring, which gets nowhere, and its open
// connections to the emulator.
type outside struct {
	metrics atomic.Int64
	open    atomic.Int64
}

func (o *outside) options() []option.ClientOption {
	return []option.ClientOption{
		option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(
			func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				if strings.HasPrefix(method, "/google.monitoring.") {
					o.metrics.Add(1)
					return ctx.Err()
				}
				return invoke(ctx, method, req, reply, cc, opts...)
			})),
		option.WithGRPCDialOption(grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			if strings.HasPrefix(addr, "monitoring.") {
				return nil, errors.New("no network")
			}
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
			if err != nil {
				return nil, err
			}
			o.open.Add(1)
			return &countedConn{Conn: conn, open: &o.open}, nil
		})),
	}
}

type countedConn struct {
	net.Conn
	open *atomic.Int64
	once sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// Google's client sends its metrics if the configuration says so, the last ones in Close, and none
// by default. It opens as many connections as the configuration says, for each app profile.
func TestBigtableConfig(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}}, percolatortest.Listen())
	for name, test := range map[string]struct {
		change  func(*percolator.Config)
		metrics bool
		open    int64
	}{
		"default":      {func(*percolator.Config) {}, false, 1},
		"metrics":      {func(c *percolator.Config) { c.Bigtable.MetricsProvider = bigtable.DefaultMetricsProvider{} }, true, 1},
		"connections":  {func(c *percolator.Config) { c.Bigtable.Connections = 3 }, false, 3},
		"two profiles": {func(c *percolator.Config) { c.Bigtable.Connections, c.BackgroundAppProfile = 2, "default" }, false, 4},
		"one profile": {func(c *percolator.Config) {
			c.Bigtable.Connections, c.AppProfile, c.BackgroundAppProfile = 2, "default", "default"
		}, false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var o outside
			cfg := percolator.Config{Project: env.Project, Instance: env.Instance, Oracle: env.Oracle}
			test.change(&cfg)
			c, err := percolator.NewClient(t.Context(), cfg, append(env.Options(), o.options()...)...)
			if err != nil {
				t.Fatal(err)
			}
			if n := o.open.Load(); n != test.open {
				t.Errorf("%d connections, want %d", n, test.open)
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			if sent := o.metrics.Load() > 0; sent != test.metrics {
				t.Errorf("metrics were sent: %v, want %v", sent, test.metrics)
			}
		})
	}
	cfg := percolator.Config{Project: env.Project, Instance: env.Instance, Oracle: env.Oracle}
	cfg.Bigtable.Connections = -1
	if _, err := percolator.NewClient(t.Context(), cfg, env.Options()...); !errors.Is(err, percolator.ErrInvalidArgument) {
		t.Errorf("-1 connections: %v", err)
	}
}
