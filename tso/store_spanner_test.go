package tso

import (
	"context"
	"errors"
	"fmt"
	"net"
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

	"github.com/gopercolator/percolator/internal/spanneremulator"
)

// freeAddress returns a loopback address on which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

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
		Parent: "projects/p/instances/" + id, CreateStatement: "CREATE DATABASE oracle", ExtraStatements: SpannerStatements(),
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
	t.Parallel()
	address := spanneremulator.Start(t)
	db := createSpannerDatabase(t, address)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	t.Run("conformance", func(t *testing.T) {
		open := func(t *testing.T, name string) Store { return NewSpannerStore(openSpanner(t, address, db), name) }
		conformance(t, open)
		conformanceOfStart(t, open)
	})

	t.Run("lost answers", func(t *testing.T) {
		var lost atomic.Int64
		store := NewSpannerStore(openSpanner(t, address, db, loseAnswers("/Commit", &lost)), "lost")
		one := first()
		two := one.successor()
		for _, step := range []struct{ old, next State }{{State{}, one}, {one, two}} {
			lost.Store(1)
			if err := store.CompareAndSwap(ctx, step.old, step.next); err != nil {
				t.Errorf("record %d was stored, only the answer was lost: %v", step.next.Version, err)
			}
			if lost.Load() > 0 {
				t.Error("no answer was lost")
			}
		}
		if got := stored(t, store); got != two {
			t.Errorf("stored %+v, want %+v", got, two)
		}
	})

	t.Run("swaps of one store at once", func(t *testing.T) {
		store := NewSpannerStore(openSpanner(t, address, db), "at-once")
		results := make(chan error, 8)
		for range cap(results) {
			go func() { results <- store.CompareAndSwap(ctx, State{}, first()) }()
		}
		won := 0
		for range cap(results) {
			if err := <-results; err == nil {
				won++
			} else if !errors.Is(err, ErrFenced) {
				t.Error(err)
			}
		}
		if won != 1 {
			t.Errorf("%d of %d first records were stored, want 1", won, cap(results))
		}
	})

	t.Run("damaged records", func(t *testing.T) { spannerDamage(t, openSpanner(t, address, db)) })
	t.Run("failover", func(t *testing.T) {
		failover(t, func(t *testing.T) Store { return NewSpannerStore(openSpanner(t, address, db), "failover") })
	})

	t.Run("no database", func(t *testing.T) {
		server, err := NewServer(NewSpannerStore(openSpanner(t, address, db+"x"), "default"), ServerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Run(ctx); status.Code(err) != codes.NotFound {
			t.Errorf("the server ends with %v", err)
		}
	})

	t.Run("leads", func(t *testing.T) {
		server, err := NewServer(NewSpannerStore(openSpanner(t, address, db), "leads"), ServerConfig{})
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
