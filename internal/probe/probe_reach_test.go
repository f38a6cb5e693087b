package probe

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/health"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

var errAway = status.Error(codes.Unavailable, "away")

// rowOf is the row that a request names, "" if it names none or several.
func rowOf(req any) string {
	switch r := req.(type) {
	case *btpb.MutateRowRequest:
		return string(r.RowKey)
	case *btpb.CheckAndMutateRowRequest:
		return string(r.RowKey)
	}
	return ""
}

// TestAStoreOutOfReachHasNoDefect: what a line could not ask is no failure of the store.
func TestAStoreOutOfReachHasNoDefect(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testAStoreOutOfReachHasNoDefect)
}

func testAStoreOutOfReachHasNoDefect(t *testing.T) {
	for line, row := range map[string]string{"request-shapes": "cells", "far-timestamps": "far-timestamps", "sizes": "sizes",
		"missing-family": "missing-family", "one-winner": "one-winner", "missing-row": "missing-row", "torn-reads": "torn-reads"} {
		for _, conditional := range []bool{false, true} {
			if line == "sizes" && conditional {
				continue // it sends none
			}
			s := newSite(t)
			s.Lines = []string{line}
			var asked atomic.Int64
			s.between = answer(func(req any, _ any) (bool, error) {
				_, is := req.(*btpb.CheckAndMutateRowRequest)
				if is == conditional && strings.HasPrefix(rowOf(req), row) && asked.Add(1) > 0 {
					return false, errAway
				}
				return false, nil
			})
			s.start(t)
			if levels, r := s.levels(t); asked.Load() > 0 && levels[line] != health.NotChecked {
				t.Errorf("%s, conditional %v: %+v", line, conditional, r.Results[0].Findings)
			}
		}
	}
}

// TestAnOracleOutOfReachHasNoDefect: its errors carry no status.
func TestAnOracleOutOfReachHasNoDefect(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Lines = []string{oracleLine}
	s.Oracle = oracleFunc(func(context.Context) (tso.Timestamp, error) {
		return 0, fmt.Errorf("tso: %w: no timestamp within 10s", tso.ErrUnavailable)
	})
	s.start(t)
	if levels, r := s.levels(t); levels[oracleLine] != health.NotChecked {
		t.Errorf("%+v", r.Results[0].Findings)
	}
}

// TestIdentityOutOfReach: an identity that nobody could ask about is not one without rights.
func TestIdentityOutOfReach(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Lines = []string{"identities"}
	s.start(t)
	s.Identities = s.Identities[:1]
	s.Identities[0].Options = append(answer(func(*btpb.PingAndWarmRequest, any) (bool, error) { return false, errAway }), s.Identities[0].Options...)
	if levels, r := s.levels(t); levels["identities"] != health.NotChecked {
		t.Errorf("%+v", r.Results[0].Findings)
	}
}

// TestFindingsSurviveTheEndOfALine: what a line has found before it is stopped.
func TestFindingsSurviveTheEndOfALine(t *testing.T) {
	t.Parallel()
	for line, last := range map[string]string{"request-shapes": "meta", "sizes": "sizes", "rewritten-versions": "never"} {
		var rewrites atomic.Int64
		s := newSite(t)
		s.Lines = []string{line}
		ctx, interrupt := context.WithCancel(t.Context())
		s.between = unary(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			switch row := rowOf(req); {
			case strings.HasPrefix(row, last):
				interrupt()
			case strings.HasPrefix(row, "cells") && strings.HasPrefix(method, "/google.bigtable.v2.Bigtable/CheckAndMutateRow"):
				return status.Error(codes.InvalidArgument, "no")
			case strings.HasPrefix(row, "kkk"):
				return nil
			case row == "rewritten-versions":
				switch rewrites.Add(1) {
				case 3: // the first version that is written again
					return nil
				case 4:
					interrupt()
				}
			}
			return invoke(ctx, method, req, reply, cc, opts...)
		})
		s.start(t)
		r, err := Run(ctx, s.Config)
		if err != nil {
			t.Fatal(err)
		}
		if levels := levelsOf(r); levels[line] != health.Failed {
			t.Errorf("%s: %+v", line, r.Results[0].Findings)
		}
	}
}

// TestNobodyWins: where all outcomes for a cell are ambiguous, that proves nothing; where one
// contender has lost, another must have won.
func TestNobodyWins(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lost bool // by one contender
		want health.Level
	}{"all are ambiguous": {false, health.NotChecked}, "one has lost": {true, health.Failed}} {
		s := newSite(t)
		s.Lines = []string{"one-winner"}
		var asked atomic.Int64
		s.between = answer(func(r *btpb.CheckAndMutateRowRequest, reply any) (bool, error) {
			if rowOf(r) != "one-winner" || string(r.FalseMutations[0].GetSetCell().ColumnQualifier) != "3" {
				return false, nil
			}
			if asked.Add(1) == 1 && c.lost {
				reply.(*btpb.CheckAndMutateRowResponse).PredicateMatched = true
				return true, nil
			}
			return false, errAway
		})
		s.start(t)
		if levels, r := s.levels(t); levels["one-winner"] != c.want {
			t.Errorf("%s: %+v", name, r.Results[0].Findings)
		}
	}
}

// TestAReadThatFindsNothingIsTorn: the row is there all the time.
func TestAReadThatFindsNothingIsTorn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Lines = []string{"torn-reads"}
	s.between = stream(nil, func(msg any) bool {
		r, ok := msg.(*btpb.ReadRowsResponse)
		return ok && len(r.Chunks) > 0 && string(r.Chunks[0].RowKey) == "torn-reads"
	})
	s.start(t)
	levels, r := s.levels(t)
	if saw := r.Results[0].Findings[0].Saw; levels["torn-reads"] != health.Failed || !strings.Contains(saw, "120 of 120 reads") {
		t.Error(saw)
	}
}

// TestProgressOfNothing: where nothing was written, a slow answer proves nothing.
func TestProgressOfNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Lines, s.ProgressBytes, s.ProgressWithin = []string{"progress"}, largeRow-1, 1
	s.start(t)
	if levels, r := s.levels(t); levels["progress"] != health.NotChecked {
		t.Errorf("%+v", r.Results[0].Findings)
	}
}

// TestTimestampsAreAnnounced: the oracle serves others beside the probe.
func TestTimestampsAreAnnounced(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Lines = []string{oracleLine}
	var asked atomic.Int64
	s.Oracle = changed(s.Oracle, func(n int64, ts tso.Timestamp) tso.Timestamp {
		asked.Add(1)
		return ts
	})
	s.start(t)
	if levels, r := s.levels(t); levels[oracleLine] != health.OK || asked.Load() == 0 || int(asked.Load()) > Announce(s.Config).Timestamps {
		t.Errorf("%d timestamps of %d: %+v", asked.Load(), Announce(s.Config).Timestamps, r.Results[0])
	}
	s.Lines = []string{"missing-row"}
	if n := Announce(s.Config).Timestamps; n != 0 {
		t.Errorf("%d timestamps without the line", n)
	}
}

// TestTheClockIsComparedToTheEnd: also while timestamps are counted.
func TestTheClockIsComparedToTheEnd(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Lines = []string{oracleLine}
	s.Oracle = changed(s.Oracle, func(n int64, ts tso.Timestamp) tso.Timestamp {
		if n > int64(s.effort.samples) {
			return ts.Add(time.Hour)
		}
		return ts
	})
	s.start(t)
	if levels, r := s.levels(t); levels[oracleLine] != health.Failed {
		t.Errorf("%+v", r.Results[0])
	}
}
