package tso

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso/internal/record"
)

// startBigtable starts an emulator in this process and returns a function that opens the oracle's
// table with a new client.
func startBigtable(t *testing.T, table string) (open func(t *testing.T, opts ...grpc.DialOption) *bigtable.Table) {
	t.Helper()
	server, err := emulator.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	admin, err := bigtable.NewAdminClient(ctx, "p", "i", server.ClientOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close() })
	if err := admin.CreateTable(ctx, table); err != nil {
		t.Fatal(err)
	}
	if err := admin.CreateColumnFamily(ctx, table, BigtableFamily); err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T, dial ...grpc.DialOption) *bigtable.Table {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		opts := server.ClientOptions()
		for _, o := range dial {
			opts = append(opts, option.WithGRPCDialOption(o))
		}
		client, err := bigtable.NewClientWithConfig(ctx, "p", "i",
			bigtable.ClientConfig{MetricsProvider: bigtable.NoopMetricsProvider{}, DisableDirectAccess: true, DisableSession: true}, opts...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		return client.Open(BigtableTable)
	}
}

func TestStoreBigtable(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: takes longer than a second")
	}
	t.Parallel()
	table := startBigtable(t, BigtableTable)
	open := func(t *testing.T, name string) Store { return NewBigtableStore(table(t), name) }
	conformance(t, open)
	conformanceOfStart(t, open)
	conformanceOfNames(t, open)
}

// cells returns all cells of the oracle's row.
func cells(t *testing.T, table *bigtable.Table, name string) []bigtable.ReadItem {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	row, err := table.ReadRow(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	var all []bigtable.ReadItem
	for _, items := range row {
		all = append(all, items...)
	}
	return all
}

func TestStoreBigtableKeepsOneVersion(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	table := startBigtable(t, BigtableTable)(t)
	store := NewBigtableStore(table, "default")
	var old State
	for next := first(); next.Version <= 5; next = next.successor() {
		if err := store.CompareAndSwap(ctx, old, next); err != nil {
			t.Fatal(err)
		}
		old = next
	}
	all := cells(t, table, "default")
	var columns []string
	for _, cell := range all {
		columns = append(columns, cell.Column)
		if cell.Timestamp != bigtableTimestamp {
			t.Errorf("%s has the timestamp %d", cell.Column, cell.Timestamp)
		}
	}
	if slices.Sort(columns); !slices.Equal(columns, []string{"oracle:initialized", "oracle:state", "oracle:witness"}) {
		t.Errorf("the row holds %+v", all)
	}
}

// loseAnswers lets the calls of the method with this suffix be applied and then fail,
// n times.
func loseAnswers(suffix string, n *atomic.Int64) grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		err := invoke(ctx, method, req, reply, cc, opts...)
		if err == nil && strings.HasSuffix(method, suffix) && n.Add(-1) >= 0 {
			return status.Error(codes.Unknown, "the answer was lost on purpose")
		}
		return err
	})
}

func TestStoreBigtableLostAnswers(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	open := startBigtable(t, BigtableTable)
	var lost atomic.Int64
	store, other := NewBigtableStore(open(t, loseAnswers("/CheckAndMutateRow", &lost)), "default"), NewBigtableStore(open(t), "default")

	one := first()
	two := one.successor()
	for _, step := range []struct{ old, next State }{{State{}, one}, {one, two}} {
		lost.Store(1)
		if err := store.CompareAndSwap(ctx, step.old, step.next); err != nil {
			t.Fatalf("record %d was stored, only the answer was lost: %v", step.next.Version, err)
		}
		if lost.Load() > 0 {
			t.Fatal("no answer was lost")
		}
	}
	// A swap that is refused, and whose answer is lost as well.
	lost.Store(1)
	if err := store.CompareAndSwap(ctx, one, one.successor()); !errors.Is(err, ErrFenced) {
		t.Errorf("got %v, want ErrFenced", err)
	}
	if got := stored(t, other); got != two {
		t.Errorf("stored %+v, want %+v", got, two)
	}
}

func TestStoreBigtableDamagedRecords(t *testing.T) {
	t.Parallel()
	open := startBigtable(t, BigtableTable)
	valid, err := recordState(first()).Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"empty":               "",
		"rubbish":             "rubbish",
		"cut short":           string(valid[:len(valid)-5]),
		"followed by more":    string(valid) + " ",
		"other JSON":          `{"name":"value"}`,
		"another format":      strings.Replace(string(valid), `"format":1`, `"format":2`, 1),
		"an unknown field":    strings.Replace(string(valid), `"epoch"`, `"more":1,"epoch"`, 1),
		"a negative mark":     strings.Replace(string(valid), `"high_water":1000`, `"high_water":-1000`, 1),
		"a mark out of range": strings.Replace(string(valid), `"high_water":1000`, `"high_water":9223372036854775807`, 1),
		"a missing mark":      strings.Replace(string(valid), `,"high_water":1000`, ``, 1),
		"a number as text":    strings.Replace(string(valid), `"high_water":1000`, `"high_water":"1000"`, 1),
		"version 0":           strings.Replace(string(valid), `"version":1`, `"version":0`, 1),
		"binary":              "\x00\x01\xff\xfe",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			table := open(t)
			damage := bigtable.NewMutation()
			damage.Set(BigtableFamily, bigtableColumn, bigtableTimestamp, []byte(value))
			if err := table.Apply(ctx, name, damage); err != nil {
				t.Fatal(err)
			}
			store := NewBigtableStore(table, name)

			server, err := NewServer(store, ServerConfig{})
			if err != nil {
				t.Fatal(err)
			}
			err = server.Run(ctx)
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), BigtableTable) || !strings.Contains(err.Error(), name) {
				t.Errorf("the server ends with %v", err)
			}
			if quoted := strings.ReplaceAll(value, `"`, `\"`); value != "\x00\x01\xff\xfe" && !strings.Contains(err.Error(), quoted) {
				t.Errorf("it does not say what it found: %v", err)
			}
			if err := store.CompareAndSwap(ctx, State{}, first()); !errors.Is(err, ErrCorrupt) {
				t.Errorf("a swap over it ends with %v", err)
			}
			if all := cells(t, table, name); len(all) != 1 || string(all[0].Value) != value {
				t.Errorf("the damaged record was changed: %+v", all)
			}
		})
	}
}

func TestStoreBigtableTwoVersions(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	table := startBigtable(t, BigtableTable)(t)
	store := NewBigtableStore(table, "default")
	if err := store.CompareAndSwap(ctx, State{}, first()); err != nil {
		t.Fatal(err)
	}
	value, err := recordState(first()).Encode()
	if err != nil {
		t.Fatal(err)
	}
	more := bigtable.NewMutation()
	more.Set(BigtableFamily, bigtableColumn, bigtableTimestamp+1000, value)
	if err := table.Apply(ctx, "default", more); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Load(ctx); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "2 versions") {
		t.Errorf("got %v, want ErrCorrupt that names 2 versions", err)
	}
}

func TestStoreBigtableWithoutTable(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	server, err := NewServer(NewBigtableStore(startBigtable(t, "another")(t), "default"), ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Run(ctx); status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), BigtableTable) {
		t.Errorf("the server ends with %v", err)
	}
}

func TestStoreEncodingRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		st := State{
			Version:   rapid.Int64Range(1, 1<<62).Draw(t, "version"),
			Nonce:     rapid.StringN(1, 16, record.MaxNonceBytes).Draw(t, "nonce"),
			Epoch:     rapid.Int64Range(0, 1<<62).Draw(t, "epoch"),
			Holder:    rapid.StringN(0, 32, record.MaxHolderBytes).Draw(t, "holder"),
			Address:   rapid.StringN(0, 128, record.MaxAddressBytes).Draw(t, "address"),
			HighWater: Timestamp(rapid.Int64Range(0, int64(MaxTimestamp)).Draw(t, "mark")),
		}
		if st.held() {
			st.Lease = time.Duration(rapid.Int64Range(1, int64(record.MaxLease)).Draw(t, "lease"))
		}
		if err := recordState(st).Check(); err != nil {
			t.Fatal(err)
		}
		b, err := recordState(st).Encode()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := record.DecodeState[Timestamp](b); err != nil || State(got) != st {
			t.Fatalf("%+v became %+v, %v", st, got, err)
		}
	})
}

// Whatever is stored: no panic, and what is accepted is written back the same.
func FuzzDecodeState(f *testing.F) {
	valid, err := recordState(first()).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(valid)
	f.Add([]byte(`{"format":1}`))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		st, err := record.DecodeState[Timestamp](b)
		if err != nil {
			return
		}
		if again, err := st.Encode(); err != nil || string(again) != string(b) {
			t.Errorf("%q was accepted and is written as %q, %v", b, again, err)
		}
	})
}
