package store

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
)

// strictLimits refuses what the interface Backend excludes, as the simulated store does.
type strictLimits struct{ crowded }

func (s *strictLimits) ReadRows(ctx context.Context, table string, rows Rows, q Query, limit int, passed func(string), visit func(layout.Row) bool) error {
	if limit < 0 {
		return status.Error(codes.Unknown, "bigtable: row limit cannot be negative")
	}
	return s.crowded.ReadRows(ctx, table, rows, q, limit, passed, visit)
}

// A read without a limit has none when it is repeated.
func TestRepeatedReadHasNoLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &strictLimits{crowded{takes: time.Millisecond, after: 7, refuse: refuseFor(time.Second, codes.ResourceExhausted, 0)}}
		s := New(t.Context(), b, &telemetry.Counters{})
		defer s.Stop()
		n := 0
		if err := s.ReadRows(t.Context(), "t", Rows{}, AllLocks(), 0, func(layout.Row) bool { n++; return true }); err != nil || n != 100 {
			t.Errorf("%d rows of 100: %v", n, err)
		}
	})
}
