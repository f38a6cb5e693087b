package probe

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"cloud.google.com/go/bigtable"
	"golang.org/x/sync/errgroup"
	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
)

// connections of a client. But for one-winner the probe has at most parallel requests in flight.
const (
	connections = 4
	parallel    = 64
)

// connect opens the clients; disconnect closes those that it has opened.
func (p *probe) connect(ctx context.Context) (disconnect func(), err error) {
	opts := slices.Concat(p.meter.options(), []option.ClientOption{offsets(), new(store.Endpoint).Option(), option.WithGRPCConnectionPool(connections)}, p.Options)
	var opened []func() error
	disconnect = func() {
		for _, c := range opened {
			_ = c()
		}
	}
	if p.backend, err = store.Connect(ctx, p.Project, p.Instance, p.AppProfile, opts); err != nil {
		return disconnect, err
	}
	p.store = store.New(ctx, p.backend, new(telemetry.Counters))
	opened = append(opened, p.store.Close)
	if p.data, err = dataClient(ctx, p.Project, p.Instance, p.AppProfile, opts); err != nil {
		return disconnect, err
	}
	opened = append(opened, p.data.Close)
	if p.admin, err = bigtable.NewAdminClient(ctx, p.Project, p.Instance, opts...); err != nil {
		return disconnect, err
	}
	opened = append(opened, p.admin.Close)
	return disconnect, nil
}

func dataClient(ctx context.Context, project, instance, profile string, opts []option.ClientOption) (*bigtable.Client, error) {
	return bigtable.NewClientWithConfig(ctx, project, instance, bigtable.ClientConfig{AppProfile: profile,
		MetricsProvider: bigtable.NoopMetricsProvider{}, DisableDirectAccess: true, DisableSession: true}, opts...)
}

// each calls do for 0 to n-1, at most atOnce at a time, until one fails or panics.
func each(ctx context.Context, n, atOnce int, do func(ctx context.Context, i int) error) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i := range n {
		if gctx.Err() != nil {
			break
		}
		g.Go(func() (err error) {
			defer func() {
				if panicked := recover(); panicked != nil {
					err = fmt.Errorf("it panicked: %v", panicked)
				}
			}()
			return do(gctx, i)
		})
	}
	return cmp.Or(g.Wait(), ctx.Err())
}
