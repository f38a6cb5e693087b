package tso

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/tso/tsopb"
)

// A leader hands nothing out that is not above what the caller has received, says so
// once, and serves others.
func TestServerNoticesLostTimestamps(t *testing.T) {
	t.Parallel()
	var log lockedLog
	s := startServing(t, NewMemoryStore(), ServerConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	last := mustNext(t, s)
	raw := rawClient(t, s.address)
	ask := func(after Timestamp) (Timestamp, error) {
		resp, err := raw.Next(t.Context(), &tsopb.NextRequest{Count: 10, After: int64(after)})
		return Timestamp(resp.GetFirst()), err
	}
	for range 3 {
		ahead := last.Add(time.Hour)
		if ts, err := ask(ahead); status.Code(err) != codes.DataLoss {
			t.Errorf("to a caller that has received %d: %d, %v", ahead, ts, err)
		}
		ts, err := ask(last)
		if err != nil || ts <= last {
			t.Errorf("to a caller that has received %d: %d, %v", last, ts, err)
		}
		last = ts + 9
	}
	for _, wrong := range []Timestamp{-1, MaxTimestamp + 1} {
		if ts, err := ask(wrong); status.Code(err) != codes.InvalidArgument {
			t.Errorf("after %d: %d, %v", wrong, ts, err)
		}
	}
	if n := strings.Count(log.String(), "level=ERROR"); n != 1 || !strings.Contains(log.String(), "Raise") {
		t.Errorf("%d errors in the log:\n%s", n, log.String())
	}
	if err := s.reportLoss(t.Context(), 5, 5); !errors.Is(err, ErrCorrupt) {
		t.Errorf("5 again: %v", err)
	}
}
