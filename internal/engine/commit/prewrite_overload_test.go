package commit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/locks"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/internal/testing/layertest"
	"github.com/gopercolator/percolator/percolator/model"
)

// toldToWait refuses the first request, and notes for how long each lock that it is sent still
// lives.
type toldToWait struct {
	store.Backend
	began time.Time
	wait  time.Duration
	sent  int
	lives []time.Duration
}

func (s *toldToWait) CheckAndMutate(_ context.Context, _, _ string, _ store.Query, _, onMiss *store.Mutation) (bool, error) {
	if s.sent++; s.sent == 1 {
		st, _ := status.New(codes.ResourceExhausted, "slow down").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(s.wait)})
		return false, st.Err()
	}
	for _, c := range onMiss.Changes() {
		if c.Family != layout.LockFamily {
			continue
		}
		l, err := layout.DecodeLock(int64(c.From)*1000, c.Value)
		if err != nil {
			panic(err)
		}
		s.lives = append(s.lives, time.Until(s.began.Add(l.Placed.Sub(firstTS)).Add(l.TTL)))
	}
	return false, nil
}

// A lock is alive when it is sent, however long its request waited for admission: the next client
// would roll it back at once, and each transaction of an overload would end so.
func TestLockIsAliveWhenItIsSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &toldToWait{began: time.Now(), wait: 12 * time.Second}
		s := store.New(context.Background(), b, &telemetry.Counters{})
		defer s.Stop()
		s.Trace = telemetry.NewSpans(nil)
		sessions, err := locks.NewSessions(new(layertest.Counter))
		if err != nil {
			t.Fatal(err)
		}
		c := &Committer{Store: s, Config: store.Settings{LockTTL: 10 * time.Second}, Locks: &locks.Resolver{Sessions: sessions}}
		w := &Write{Kind: layout.KindPut, Cell: model.Cell{Table: "t", Row: "r", Column: "c"}, Value: []byte("v")}
		cm := &commit{c: c, startTS: firstTS, started: b.began, primary: w}
		rw := &rowWrites{table: "t", row: "r", writes: []*Write{w}}
		cm.rows, cm.outcome = []*rowWrites{rw}, map[*rowWrites]prewriteOutcome{}
		if err := cm.prewriteChunk(t.Context(), rw, rw.writes, true); err != nil {
			t.Fatal(err)
		}
		if len(b.lives) != 1 || b.lives[0] <= 0 {
			t.Errorf("locks live for %v when they are sent, TTL 10 s", b.lives)
		}
	})
}
