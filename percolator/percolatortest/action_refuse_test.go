package percolatortest

import (
	"context"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
)

// What is refused is not delivered, and its answer has the status and its details.
func TestRefuse(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.faults.Handle(always(Refuse(emulator.Overloaded(0))))
	wantCode(t, b.checkAndSet(testContext(t), "r", "v"), codes.ResourceExhausted)
	b.wantStored(t, "r", "")
	if n := b.delivered.Load(); n != 0 {
		t.Errorf("delivered %d times", n)
	}
	f := newFaults("c")
	for _, after := range []time.Duration{0, 2 * time.Second} {
		got := f.carryOut(testContext(t), Request{}, Refuse(emulator.Overloaded(after)), func(context.Context) answer {
			t.Error("delivered")
			return answer{}
		})
		asked := time.Duration(0)
		for _, d := range status.Convert(got.err).Details() {
			if info, ok := d.(*errdetails.RetryInfo); ok {
				asked = info.RetryDelay.AsDuration()
			}
		}
		if status.Code(got.err) != codes.ResourceExhausted || asked != after {
			t.Errorf("%v, wait %v, want %v", got.err, asked, after)
		}
	}
}

// The oracle's requests can be refused too.
func TestRefuseTimestamps(t *testing.T) {
	t.Parallel()
	env := New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}})
	env.FaultsOf(env.Client).Handle(func(r Request) Action {
		if r.Method == Oracle {
			return Refuse(status.Error(codes.PermissionDenied, "no"))
		}
		return Pass
	})
	if _, err := env.Client.Snapshot(testContext(t)); status.Code(err) != codes.PermissionDenied {
		t.Errorf("%v", err)
	}
}

// Over connections a client survives their drain, silence and reset in a bubble.
func TestOverConnections(t *testing.T) {
	t.Parallel()
	Bubble(t, func(t *testing.T) {
		env := New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}}, OverConnections(), Configure(func(cfg *percolator.Config) {
			cfg.Bigtable = percolator.BigtableConfig{KeepaliveTime: 10 * time.Second, KeepaliveTimeout: 3 * time.Second} // within a request's lifetime
		}))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		for name, fail := range map[string]func(emulator.Connection){
			"drained": emulator.Connection.GoAway, "silent": emulator.Connection.Silence, "reset": emulator.Connection.Reset,
		} {
			before := env.Emulator().Connections()
			if len(before) == 0 {
				t.Fatal("no connections")
			}
			for _, c := range before {
				fail(c)
			}
			began := time.Now()
			_, err := env.Client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
				return tx.Set(percolator.Cell{Table: "t", Row: "r", Column: "c"}, []byte(name))
			})
			if took := time.Since(began); err != nil || took > time.Minute {
				t.Errorf("%s: %v after %v", name, err, took)
			}
		}
	})
}

// The storage of an environment can be full.
func TestFullStorage(t *testing.T) {
	t.Parallel()
	env := New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}})
	env.Emulator().SetFull(true)
	ctx, cancel := context.WithTimeout(testContext(t), 100*time.Millisecond) // a later client may wait
	defer cancel()
	update := func(ctx context.Context) error {
		_, err := env.Client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
			return tx.Set(percolator.Cell{Table: "t", Row: "r", Column: "c"}, nil)
		})
		return err
	}
	if err := update(ctx); err == nil {
		t.Error("written although it is full")
	}
	env.Emulator().SetFull(false)
	if err := update(testContext(t)); err != nil {
		t.Error(err)
	}
}
