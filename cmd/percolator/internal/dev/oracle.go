package dev

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"cloud.google.com/go/bigtable"
	"github.com/google/uuid"
	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
	"github.com/gopercolator/percolator/tso/coordination"
)

// devOracleName is the name of dev's oracle, the default of the other commands.
const devOracleName = "default"

// openDevOracle opens the store of the oracle's record, which is kept where "percolator init" puts
// it, so that a snapshot has it and the other commands find it, and makes it ready.
func openDevOracle(ctx context.Context, f devFlags, found emulator.Contents, opts []option.ClientOption) (store tso.Store, closeStore func() error, err error) {
	if err := (admin.Instance{Project: f.project, ID: f.instance, Options: opts}).CreateMetaTable(ctx); err != nil {
		return nil, nil, err
	}
	client, err := bigtable.NewClientWithConfig(ctx, f.project, f.instance, bigtable.ClientConfig{
		MetricsProvider: bigtable.NoopMetricsProvider{}, DisableDirectAccess: true, DisableSession: true,
	}, opts...)
	if err != nil {
		return nil, nil, fmt.Errorf("opening Bigtable instance %s/%s: %w", f.project, f.instance, err)
	}
	record := tso.NewBigtableStore(client.Open(tso.BigtableTable), devOracleName)
	store = emulatedStore{record, record.(coordination.SessionStore)}
	err = tso.Initialize(ctx, store)
	if err == nil {
		err = resumeOracle(ctx, store, newestTimestamp(f, found))
	}
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	return store, client.Close, nil
}

// emulatedStore is a store in Bigtable without its warning of replication, of which an emulator has
// none.
type emulatedStore struct {
	tso.Store
	coordination.SessionStore
}

// resumeOracle frees the lease of a process that has crashed, which no process holds any
// more as the store was down with it, and lifts the mark above what is stored. The record of a
// snapshot is above that by itself, as the snapshot is of one instant and the mark is stored before
// a timestamp is handed out (docs/internals/PROTOCOL.md, I1), unless another oracle has served this
// instance as well.
func resumeOracle(ctx context.Context, store tso.Store, newest tso.Timestamp) error {
	st, err := store.Load(ctx)
	if err != nil || st.Holder == "" && st.HighWater >= newest {
		return err
	}
	next := st
	next.Version++
	next.Nonce = uuid.NewString()
	next.Holder, next.Address, next.Lease = "", "", 0
	next.HighWater = max(st.HighWater, newest)
	return store.CompareAndSwap(ctx, st, next)
}

// newestTimestamp returns the greatest timestamp of a cell in the tables of transactions of dev's
// instance, 0 if there are none. Tables of other instances have their own oracle, and in other
// tables a cell's timestamp is none of an oracle.
func newestTimestamp(f devFlags, found emulator.Contents) tso.Timestamp {
	prefix := "projects/" + f.project + "/instances/" + f.instance + "/tables/"
	var newest tso.Timestamp
	for _, t := range found.Tables {
		if !strings.HasPrefix(t.Name, prefix) || strings.Join(t.Families, " ") != "data lock notify write" {
			continue
		}
		// Cells have timestamps in microseconds, of which milliseconds count.
		if ts := tso.Timestamp(t.Newest / 1000); ts <= tso.MaxTimestamp {
			newest = max(newest, ts)
		}
	}
	return newest
}
