package admin_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/model"
)

// creations records the requests that create tables: emulators keep no policy of backups.
type creations struct {
	mu   sync.Mutex
	seen []*adminpb.CreateTableRequest
}

func (c *creations) option() option.ClientOption {
	return option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if r, ok := req.(*adminpb.CreateTableRequest); ok {
				c.mu.Lock()
				c.seen = append(c.seen, r)
				c.mu.Unlock()
			}
			return invoke(ctx, method, req, reply, cc, opts...)
		}))
}

// Every table that ApplySchema and CreateMetaTable create is protected as the caller says, and one
// that exists stays as it is.
func TestNewTablesAreProtected(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	store, err := emulator.Start(emulator.InMemory())
	fixture.Must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	var made creations
	in := admin.Instance{Project: "p", ID: "i", Options: append(slices.Clone(store.ClientOptions()), made.option())}
	fixture.Must(t, in.CreateMetaTable(ctx)) // without protection

	in.Protection = model.TableProtection{Deletion: true, Backups: 7 * 24 * time.Hour}
	s := &percolator.Schema{Tables: []percolator.Table{{Name: "t", Indexes: []percolator.Index{{Name: "i", Column: "c"}}}}}
	fixture.Must(t, in.ApplySchema(ctx, s))
	fixture.Must(t, in.ApplySchema(ctx, s))

	protected := map[string]int{}
	for _, r := range made.seen {
		policy := r.GetTable().GetAutomatedBackupPolicy()
		if !r.GetTable().GetDeletionProtection() && policy == nil {
			continue
		}
		if !r.GetTable().GetDeletionProtection() || policy.GetRetentionPeriod().AsDuration() != 7*24*time.Hour || policy.GetFrequency().AsDuration() != 24*time.Hour {
			t.Errorf("table %s: %v", r.TableId, r.Table)
		}
		protected[r.TableId]++
	}
	for _, name := range []string{"t", "t.i", "percolator_journal"} {
		if protected[name] == 0 {
			t.Errorf("table %s is made without protection", name)
		}
	}
	tables, err := bigtable.NewAdminClient(ctx, "p", "i", store.ClientOptions()...)
	fixture.Must(t, err)
	defer func() { _ = tables.Close() }()
	for name, want := range map[string]bigtable.DeletionProtection{"t": bigtable.Protected, "t.i": bigtable.Protected, model.JournalTable: bigtable.Protected, model.MetaTable: bigtable.Unprotected} {
		info, err := tables.TableInfo(ctx, name)
		fixture.Must(t, err)
		if info.DeletionProtection != want {
			t.Errorf("table %s: protection %v, want %v", name, info.DeletionProtection, want)
		}
	}
}

func TestProtectionThatBigtableRefuses(t *testing.T) {
	t.Parallel()
	for _, backups := range []time.Duration{-time.Hour, time.Hour, model.MinTableBackups - 1, model.MaxTableBackups + 1} {
		in := admin.Instance{Project: "p", ID: "i", Protection: model.TableProtection{Backups: backups}}
		if err := in.CreateMetaTable(t.Context()); !errors.Is(err, percolator.ErrInvalidArgument) {
			t.Errorf("CreateMetaTable with backups for %s: %v", backups, err)
		}
		if err := in.ApplySchema(t.Context(), &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}}); !errors.Is(err, percolator.ErrInvalidArgument) {
			t.Errorf("ApplySchema with backups for %s: %v", backups, err)
		}
	}
	for _, backups := range []time.Duration{0, model.MinTableBackups, model.MaxTableBackups} {
		fixture.Must(t, model.TableProtection{Backups: backups}.Check())
	}
}
