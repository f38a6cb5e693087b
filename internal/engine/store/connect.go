package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/bigtable"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/gopercolator/percolator/internal/emulatorhost"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/percolator/model"
)

// AppProfiles are those of a client. "" is the instance's default one for Transactions, and that of
// Transactions for Background.
type AppProfiles struct{ Transactions, Background string }

// Connect opens a data client for one app profile, without metrics and direct access.
func Connect(ctx context.Context, project, instance, appProfile string, opts []option.ClientOption) (Backend, error) {
	return ConnectWith(ctx, project, instance, AppProfiles{Transactions: appProfile}, bigtable.ClientConfig{DisableDirectAccess: true}, opts)
}

// onBackend is an option for this package alone: Google's does nothing.
type onBackend struct {
	option.ClientOption
	backend Backend
}

// OnBackend makes Connect return a backend that is there already, such as a simulated store; all
// other options are without effect.
func OnBackend(b Backend) option.ClientOption {
	return onBackend{option.WithoutAuthentication(), b}
}

// AwaitEmulator returns an error, within seconds, if a client with these options would go to an
// emulator where none answers. The client itself tries for as long as its context lasts.
func AwaitEmulator(ctx context.Context, opts []option.ClientOption) error {
	if connects(opts) {
		return nil
	}
	err := emulatorhost.Await(ctx, emulatorhost.Bigtable)
	switch {
	case errors.Is(err, emulatorhost.ErrAddress):
		return fmt.Errorf("percolator: %w: %w", model.ErrInvalidArgument, err)
	case err != nil:
		return fmt.Errorf("percolator: %w", retry.WithContext(ctx, err))
	}
	return nil
}

// ConnectWith opens the data client, and a second one if background work has an app profile of its
// own: a client of Google's has one for all its requests. Without a MetricsProvider it sends none.
func ConnectWith(ctx context.Context, project, instance string, profiles AppProfiles, cfg bigtable.ClientConfig, opts []option.ClientOption) (Backend, error) {
	for _, o := range opts {
		if there, ok := o.(onBackend); ok {
			return there.backend, nil
		}
	}
	if err := AwaitEmulator(ctx, opts); err != nil {
		return nil, err
	}
	if cfg.DisableSession = true; cfg.MetricsProvider == nil { // which sends metrics
		cfg.MetricsProvider = bigtable.NoopMetricsProvider{}
	}
	cfg.AppProfile = profiles.Transactions
	foreground, err := connect(ctx, project, instance, cfg, opts)
	if err != nil {
		return nil, err
	}
	if cmp.Or(profiles.Background, profiles.Transactions) == profiles.Transactions {
		return &google{foreground, foreground}, nil
	}
	cfg.AppProfile = profiles.Background
	background, err := connect(ctx, project, instance, cfg, opts)
	if err != nil {
		_ = foreground.close()
		return nil, err
	}
	return &google{foreground, background}, nil
}

// connects reports whether opts bring a connection, which Google's client prefers to the
// emulator's.
func connects(opts []option.ClientOption) bool {
	own := reflect.TypeOf(option.WithGRPCConn(nil))
	return slices.ContainsFunc(opts, func(o option.ClientOption) bool { return reflect.TypeOf(o) == own })
}

// Google's client for Go sets no keepalive; these are the times of that for Java.
const (
	keepaliveTime    = 30 * time.Second
	keepaliveTimeout = 10 * time.Second
)

// Keepalive is the option that has a connection asked whether it is alive after so long without a
// sign of life. 0: the default; none if both are 0, as connect has it already. every < 0: never.
func Keepalive(every, timeout time.Duration) []option.ClientOption {
	switch {
	case every == 0 && timeout == 0:
		return nil
	case every < 0:
		every = math.MaxInt64
	}
	return []option.ClientOption{option.WithGRPCDialOption(grpc.WithKeepaliveParams(keepalive.ClientParameters{
		Time: cmp.Or(every, keepaliveTime), Timeout: cmp.Or(timeout, keepaliveTimeout), PermitWithoutStream: true,
	}))}
}

// connection is a client of Google's, for one app profile.
type connection struct {
	client *bigtable.Client
	end    context.CancelFunc // of the context that the client lives in
	tables sync.Map           // name → *bigtable.Table
	conns  *pool
}

// connect makes a client within ctx, which outlives ctx: Google's pool replaces no connection, and
// reports no metrics, once the context that it was made with has ended.
func connect(ctx context.Context, project, instance string, cfg bigtable.ClientConfig, opts []option.ClientOption) (*connection, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	conns := &pool{life: life}
	opts = slices.Concat(Keepalive(keepaliveTime, keepaliveTimeout), conns.option(), opts)
	stop := context.AfterFunc(ctx, end)
	client, err := bigtable.NewClientWithConfig(life, project, instance, cfg, opts...)
	c := &connection{client: client, end: end, conns: conns}
	if err == nil && !stop() {
		err = ctx.Err()
		_ = c.close()
	}
	if err != nil {
		stop()
		end()
		return nil, fmt.Errorf("percolator: bigtable client of %s/%s: %w", project, instance, retry.WithContext(ctx, emulatorhost.Credentials(err)))
	}
	return c, nil
}

func (c *connection) table(name string) *bigtable.Table {
	if t, ok := c.tables.Load(name); ok {
		return t.(*bigtable.Table)
	}
	t, _ := c.tables.LoadOrStore(name, c.client.Open(name))
	return t.(*bigtable.Table)
}

// metricsTimeout bounds sending the last metrics, where any are sent.
const metricsTimeout = 5 * time.Second

func (c *connection) close() error {
	defer c.end()
	defer time.AfterFunc(metricsTimeout, c.end).Stop()
	err := c.client.Close()
	if err != nil && strings.Contains(err.Error(), "closing") { // closed before
		return nil
	}
	return err
}
