package tso_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/spanner"
	database "cloud.google.com/go/spanner/admin/database/apiv1"
	"cloud.google.com/go/spanner/admin/database/apiv1/databasepb"
	instance "cloud.google.com/go/spanner/admin/instance/apiv1"
	"cloud.google.com/go/spanner/admin/instance/apiv1/instancepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/testing/emulators"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/tso"
	"github.com/gopercolator/percolator/tso/coordination"
	"github.com/gopercolator/percolator/tso/spannerstore"
)

func spannerOptions(address string, opts ...grpc.DialOption) []option.ClientOption {
	all := []option.ClientOption{
		option.WithEndpoint("passthrough:///" + address),
		option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
	}
	for _, opt := range opts {
		all = append(all, option.WithGRPCDialOption(opt))
	}
	return all
}

// createSpannerDatabase makes a database with the oracles' table and returns its
// name.
func createSpannerDatabase(t *testing.T, address string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	// The emulator may still be starting.
	ready := grpc.WithDefaultCallOptions(grpc.WaitForReady(true))
	instances, err := instance.NewInstanceAdminClient(ctx, spannerOptions(address, ready)...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = instances.Close() }()
	id := fmt.Sprintf("oracle-%d", time.Now().UnixNano())
	created, err := instances.CreateInstance(ctx, &instancepb.CreateInstanceRequest{
		Parent: "projects/p", InstanceId: id,
		Instance: &instancepb.Instance{Config: "projects/p/instanceConfigs/emulator-config", DisplayName: "oracle", NodeCount: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := created.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	databases, err := database.NewDatabaseAdminClient(ctx, spannerOptions(address)...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = databases.Close() }()
	op, err := databases.CreateDatabase(ctx, &databasepb.CreateDatabaseRequest{
		Parent: "projects/p/instances/" + id, CreateStatement: "CREATE DATABASE oracle", ExtraStatements: spannerstore.Statements(),
	})
	if err != nil {
		t.Fatal(err)
	}
	db, err := op.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return db.GetName()
}

func openSpanner(t *testing.T, address, name string, opts ...grpc.DialOption) *spanner.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	client, err := spanner.NewClientWithConfig(ctx, name, spanner.ClientConfig{DisableNativeMetrics: true}, spannerOptions(address, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func TestStoreSpanner(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	address := emulators.StartSpanner(t)
	db := createSpannerDatabase(t, address)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	t.Run("conformance", func(t *testing.T) {
		open := func(t *testing.T, name string) tso.Store { return spannerstore.New(openSpanner(t, address, db), name) }
		tso.Conformance(t, open)
		tso.ConformanceOfStart(t, open)
		tso.ConformanceOfNames(t, open)
	})

	t.Run("lost answers", func(t *testing.T) {
		var lost atomic.Int64
		store := spannerstore.New(openSpanner(t, address, db, tso.LoseAnswers("/Commit", &lost)), "lost")
		one := tso.First()
		two := tso.Successor(one)
		for _, step := range []struct{ old, next tso.State }{{tso.State{}, one}, {one, two}} {
			lost.Store(1)
			if err := store.CompareAndSwap(ctx, step.old, step.next); err != nil {
				t.Errorf("record %d was stored, only the answer was lost: %v", step.next.Version, err)
			}
			if lost.Load() > 0 {
				t.Error("no answer was lost")
			}
		}
		if got := tso.Stored(t, store); got != two {
			t.Errorf("stored %+v, want %+v", got, two)
		}
	})

	t.Run("swaps of one store at once", func(t *testing.T) {
		store := spannerstore.New(openSpanner(t, address, db), "at-once")
		results := make(chan error, 8)
		for range cap(results) {
			go func() { results <- store.CompareAndSwap(ctx, tso.State{}, tso.First()) }()
		}
		won := 0
		for range cap(results) {
			if err := <-results; err == nil {
				won++
			} else if !errors.Is(err, tso.ErrFenced) {
				t.Error(err)
			}
		}
		if won != 1 {
			t.Errorf("%d of %d first records were stored, want 1", won, cap(results))
		}
	})

	t.Run("damaged records", func(t *testing.T) { spannerDamage(t, openSpanner(t, address, db)) })
	t.Run("failover", func(t *testing.T) {
		tso.Failover(t, func(t *testing.T) tso.Store { return spannerstore.New(openSpanner(t, address, db), "failover") })
	})

	t.Run("no database", func(t *testing.T) {
		server, err := tso.NewServer(spannerstore.New(openSpanner(t, address, db+"x"), "default"), tso.ServerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Run(ctx); status.Code(err) != codes.NotFound {
			t.Errorf("the server ends with %v", err)
		}
	})

	t.Run("leads", func(t *testing.T) {
		server, err := tso.NewServer(spannerstore.New(openSpanner(t, address, db), "leads"), tso.ServerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		runCtx, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- server.Run(runCtx) }()
		if _, err := server.Next(ctx); err != nil {
			t.Error(err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestSessionStoreSpanner(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	address := emulators.StartSpanner(t)
	db := createSpannerDatabase(t, address)
	tso.SessionConformance(t, func(t *testing.T, name string) tso.Store { return spannerstore.New(openSpanner(t, address, db), name) })

	t.Run("lost answers", func(t *testing.T) {
		var lost atomic.Int64
		s := spannerstore.New(openSpanner(t, address, db, tso.LoseAnswers("/Commit", &lost)), "lost").(coordination.SessionStore)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		lost.Store(1)
		if err := s.AddSession(ctx, "x"); err == nil {
			t.Error("nobody noticed the lost answer")
		}
		if err := s.AddSession(ctx, "x"); err != nil {
			t.Error(err)
		}
	})
}

// spannerDamage does to Spanner's rows what TestStoreBigtableDamagedRows does to
// Bigtable's cells.
func spannerDamage(t *testing.T, client *spanner.Client) {
	row := func(name, kind string, columns map[string]any) *spanner.Mutation {
		columns["Name"], columns["Kind"] = name, kind
		return spanner.UpdateMap("PercolatorOracle", columns)
	}
	remove := func(name, kind string) *spanner.Mutation {
		return spanner.Delete("PercolatorOracle", spanner.Key{name, kind})
	}
	for name, c := range map[string]struct {
		damage   func(name string) *spanner.Mutation
		greatest tso.Timestamp
		want     []string
	}{
		"state deleted":   {func(name string) *spanner.Mutation { return remove(name, "state") }, 3000, []string{"the mark is missing", "3000"}},
		"witness deleted": {func(name string) *spanner.Mutation { return remove(name, "witness") }, 3000, []string{`"witness" is missing`, "3000"}},
		"mark lowered": {func(name string) *spanner.Mutation {
			return row(name, "state", map[string]any{"HighWater": 2000})
		}, 3000, []string{"mark 2000", "mark 3000"}},
		"negative mark": {func(name string) *spanner.Mutation {
			return row(name, "state", map[string]any{"HighWater": -5})
		}, 3000, []string{"high-water mark -5"}},
		"mark out of range": {func(name string) *spanner.Mutation {
			return row(name, "state", map[string]any{"HighWater": int64(tso.MaxTimestamp) + 1})
		}, 3000, []string{"high-water mark 9223372036854775"}},
		"epoch lowered": {func(name string) *spanner.Mutation {
			return row(name, "state", map[string]any{"Epoch": 0})
		}, 3000, []string{"epoch 0", "epoch 1"}},
		"witness heightened": {func(name string) *spanner.Mutation {
			return row(name, "witness", map[string]any{"HighWater": 9000})
		}, 9000, []string{"mark 9000", "mark 3000"}},
		"no nonce": {func(name string) *spanner.Mutation {
			return row(name, "state", map[string]any{"Nonce": spanner.NullString{}})
		}, 3000, []string{"nonce"}},
		"another kind": {func(name string) *spanner.Mutation {
			return spanner.InsertMap("PercolatorOracle", map[string]any{"Name": name, "Kind": "more", "Version": 1, "Epoch": 1, "HighWater": 1})
		}, 3000, []string{`kind "more"`}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			name := "damaged: " + name
			store := spannerstore.New(client, name)
			tso.DamagedStart(t, store)
			if _, err := client.Apply(ctx, []*spanner.Mutation{c.damage(name)}); err != nil {
				t.Fatal(err)
			}
			tso.RefusesDamage(t, store, c.greatest, append(c.want, "PercolatorOracle", name)...)
		})
	}
}
