package tso

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/gopercolator/percolator/tso/tsopb"
)

// A message has its time; those above the bound have little. What has arrived stays.
func TestArrivalsAboveTheBoundHaveLittleTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := newArrivals(8, 25, func(context.Context) {})
		begin := func(ctx context.Context, host string) context.Context {
			ctx, err := a.begin(from(ctx, host), nil)
			if err != nil {
				t.Fatal(err)
			}
			return ctx
		}
		check := func(when string, used int, alive, ended []context.Context) {
			t.Helper()
			synctest.Wait()
			if a.calls.Used() != used {
				t.Errorf("%s: %d count, want %d", when, a.calls.Used(), used)
			}
			for i, ctx := range alive {
				if ctx.Err() != nil {
					t.Errorf("%s: call %d has ended", when, i)
				}
			}
			for i, ctx := range ended {
				if ctx.Err() == nil {
					t.Errorf("%s: call %d has not ended", when, i)
				}
			}
		}
		const here, there = "192.0.2.1", "192.0.2.2"
		one, two := begin(t.Context(), here), begin(t.Context(), here)
		above, quick := begin(t.Context(), here), begin(t.Context(), here)
		other := begin(t.Context(), there)
		check("at first", 3, []context.Context{one, two, above, quick, other}, nil)
		arrived(quick)
		arrived(one)
		check("when one has arrived", 2, nil, nil)
		time.Sleep(hastyArrival)
		check("soon", 2, []context.Context{one, two, quick, other}, []context.Context{above})
		stream, end := context.WithCancel(t.Context())
		gone := begin(stream, here)
		check("another", 3, []context.Context{gone}, nil)
		end()
		check("when its stream has ended", 2, nil, nil)
		time.Sleep(maxArrival)
		check("when the time is up", 0, []context.Context{one, quick}, []context.Context{two, other})
	})
}

// Calls that begin and never end their message are ended, on each connection, and leave nothing
// behind; a call that has waited since before does not notice.
func TestServerEndsUnfinishedCalls(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: takes longer than a second")
	}
	t.Parallel()
	s := startServing(t, NewMemoryStore(), ServerConfig{PeerShare: 1})
	client := dial(t, s.address)
	waiting := make(chan error, 1)
	go func() {
		_, err := client.TakeHints(t.Context(), []uint64{1}, 1, 3*time.Second)
		waiting <- err
	}()
	for _, method := range []string{tsopb.Hints_LeaveHints_FullMethodName, "/grpc.health.v1.Health/Watch"} {
		conn := mustConnect(t, s.address)
		_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
		framer, err := introduce(conn, conn)
		if err != nil {
			t.Fatal(err)
		}
		const calls = 40 // more than the share of 20
		for i := range calls {
			stream := uint32(2*i + 1)
			err := errors.Join(beginCall(framer, stream, method), framer.WriteData(stream, false, []byte{0, 0, 0, 0xff, 0, 'x'}))
			if err != nil {
				t.Fatal(err)
			}
		}
		for ended := 0; ended < calls; {
			frame, err := framer.ReadFrame()
			if err != nil {
				t.Fatalf("%s: %d ended, then %v", method, ended, err)
			}
			if h, ok := frame.(*http2.HeadersFrame); ok && h.StreamEnded() {
				ended++
			}
		}
	}
	if err := <-waiting; err != nil {
		t.Errorf("a call that waits: %v", err)
	}
}
