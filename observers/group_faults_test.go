package observers_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// oneByOne hides that an oracle has blocks, so that each run commits by itself: what the groups are
// compared with.
type oneByOne struct{ tso.Oracle }

// eachGrouping runs a test without and with groups, in virtual time.
func eachGrouping(t *testing.T, f func(t *testing.T, g *inGroups)) {
	t.Helper()
	for _, grouped := range []bool{false, true} {
		t.Run(map[bool]string{false: "by themselves", true: "in groups"}[grouped], func(t *testing.T) {
			testGroups(t, func(t *testing.T, g *inGroups) {
				if clock := g.client.Engine().Clock; !grouped {
					clock.Oracle = oneByOne{clock.Oracle}
				}
				f(t, g)
			})
		})
	}
}

// unreachable holds every request that names the row, as a tablet does that does not answer.
func (g *inGroups) unreachable(row string) *percolatortest.Hold {
	hold := percolatortest.NewHold()
	g.FaultsOf(g.client).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Table == "t" && r.Row == row && r.Method == percolatortest.CheckAndMutateRow {
			return hold
		}
		return percolatortest.Pass
	})
	return hold
}

// due writes cells, whose runs begin together if there are groups.
func (g *inGroups) due(n int) {
	g.Helper()
	g.writeRows(n)
	if _, grouped := g.client.Engine().Clock.Oracle.(tso.Blocks); grouped {
		g.w.Gather(g.ctx, "o", n)
	}
}

// within waits for so long that cond holds.
func (g *inGroups) within(d time.Duration, cond func() bool) bool {
	for end := time.Now().Add(d); time.Now().Before(end); {
		if cond() {
			return true
		}
		select {
		case <-g.ctx.Done():
			return false
		case <-time.After(10 * time.Millisecond):
		}
	}
	return cond()
}

// A member that writes to a row that does not answer holds up others for seconds at most.
func TestMemberWhoseRowDoesNotAnswer(t *testing.T) {
	eachGrouping(t, func(t *testing.T, g *inGroups) {
		g.observe(func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
			if ch.Cell.Row == "r002" {
				return tx.Set(cell("dead", "out"), nil)
			}
			return nil
		})
		hold := g.unreachable("dead")
		defer hold.Release()
		g.due(5)
		g.within(20*time.Second, func() bool { return g.w.Stats().Runs == 4 })
		if n := g.w.Stats().Runs; n != 4 {
			t.Errorf("%d of the 4 others have committed within 20 s: %+v", n, g.w.Stats())
		}
	})
}

// Nor does it cost the others an attempt: with one attempt each, they would be parked.
func TestMembersOfARowThatDoesNotAnswerAreNotParked(t *testing.T) {
	eachGrouping(t, func(t *testing.T, g *inGroups) {
		g.r.Observe("o", "t", "in", func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
			if ch.Cell.Row == "r002" {
				return tx.Set(cell("dead", "out"), nil)
			}
			return nil
		}, observers.CommitTogether(), observers.Collapse(togetherAfter), observers.Timeout(5*time.Second))
		g.w, _ = g.start(g.client, g.r, observers.Config{Concurrency: 16, MaxAttempts: 1, DisableCollection: true, ReportInterval: -1})
		hold := g.unreachable("dead")
		defer hold.Release()
		g.due(5)
		g.within(30*time.Second, func() bool { s := g.w.Stats(); return s.Runs+s.Parked >= 5 })
		var rows []string
		for _, p := range g.parked() {
			rows = append(rows, p.Cell.Row)
		}
		if len(rows) > 1 {
			t.Errorf("parked: %q; stats %+v", rows, g.w.Stats())
		}
	})
}

// A part of the cells that writes to rows that do not answer leaves the others to be run: how many
// of 200 commit within 20 s, where every 16th does.
func TestGroupsBesideRowsThatDoNotAnswer(t *testing.T) {
	eachGrouping(t, func(t *testing.T, g *inGroups) {
		const cells = 200
		g.observe(func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
			var n int
			fmt.Sscanf(ch.Cell.Row, "r%d", &n)
			if n%16 == 2 && n < 60 {
				return tx.Set(cell("dead", fmt.Sprint(n)), nil)
			}
			return nil
		})
		hold := g.unreachable("dead")
		defer hold.Release()
		g.writeRows(cells)
		bad := int64(4)
		g.within(20*time.Second, func() bool { return g.w.Stats().Runs >= cells-bad })
		if n := g.w.Stats().Runs; n < cells-bad {
			t.Errorf("%d of %d others have committed within 20 s: %+v", n, cells-bad, g.w.Stats())
		}
	})
}

// writeFrom writes cells by another client, which no fault hits.
func (g *inGroups) writeFrom(c *percolator.Client, n int) {
	g.Helper()
	_, err := c.Update(g.ctx, func(_ context.Context, tx *percolator.Txn) error {
		for i := range n {
			if err := tx.Set(cell(fmt.Sprintf("r%03d", i), "in"), nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = c.Flush(g.ctx)
	}
	if err != nil {
		g.Fatal(err)
	}
	if _, grouped := g.client.Engine().Clock.Oracle.(tso.Blocks); grouped {
		g.w.Gather(g.ctx, "o", n)
	}
}

// A worker sees the loops of cells that run together (LIMITS.md: after 1,000 runs in a row it warns
// and pauses).
func TestLoopsOfAGroup(t *testing.T) {
	eachGrouping(t, func(t *testing.T, g *inGroups) {
		const cells, most = 4, 1100
		g.client.Engine().Loops = nil // as in a program
		var log logBuffer
		var runs [cells]atomic.Int64
		g.r.Observe("o", "t", "in", func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
			var n int
			fmt.Sscanf(ch.Cell.Row, "r%d", &n)
			if runs[n].Add(1) >= most {
				return nil
			}
			return tx.Set(ch.Cell, nil)
		}, observers.CommitTogether(), observers.Collapse(time.Millisecond))
		g.w, _ = g.start(g.client, g.r, observers.Config{Concurrency: 16, MinBackoff: time.Minute, MaxBackoff: time.Hour, DisableCollection: true, ReportInterval: -1,
			Logger: slog.New(slog.NewTextHandler(&log, nil))})
		g.writeRows(cells)
		g.within(20*time.Second, func() bool {
			return strings.Contains(log.String(), "cause its own next runs") || runs[0].Load() >= most
		})
		t.Logf("runs of the first cell: %d", runs[0].Load())
		if !strings.Contains(log.String(), "cause its own next runs") {
			t.Errorf("no warning after %d runs in a row of each of %d cells", runs[0].Load(), cells)
		}
	})
}

// Runs that begin at the same time ask for their timestamps at the same time (tso.Client gives them
// one request), also where their observer has no groups.
func TestBeginsDoNotWaitForEachOther(t *testing.T) {
	eachGrouping(t, func(t *testing.T, g *inGroups) {
		const cells = 16
		var step atomic.Int64
		g.r.Observe("o", "t", "in", func(ctx context.Context, _ *percolator.Txn, _ observers.Change) error {
			select { // each takes its own time, so that none commits with another
			case <-time.After(time.Duration(step.Add(1)) * 100 * time.Millisecond):
			case <-ctx.Done():
			}
			return nil
		}, observers.CommitTogether(), observers.Collapse(togetherAfter), observers.Timeout(10*time.Minute))
		g.w, _ = g.start(g.client, g.r, observers.Config{Concurrency: cells, DisableCollection: true, ReportInterval: -1})
		for range 4 { // so that groups cease
			step.Store(0)
			g.writeRows(cells)
			g.idle(g.w)
		}
		hold := percolatortest.NewHold()
		defer hold.Release()
		g.writeRows(cells)
		g.FaultsOf(g.client).Handle(func(r percolatortest.Request) percolatortest.Action {
			if r.Method == percolatortest.Oracle {
				return hold
			}
			return percolatortest.Pass
		})
		g.within(5*time.Second, func() bool { return len(hold.Requests()) >= cells })
		if n := len(hold.Requests()); n < cells {
			t.Errorf("%d requests of %d runs that are ready are in flight", n, g.w.Stats().Running)
		}
	})
}

// A member that writes what another member acknowledges leads to a run of that cell.
func TestMemberThatWritesWhatAnotherAcknowledges(t *testing.T) {
	eachGrouping(t, func(t *testing.T, g *inGroups) {
		g.observe(func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
			var n int
			fmt.Sscanf(ch.Cell.Row, "r%d", &n)
			if g.count(ch.Cell.Row) > 1 {
				return nil
			}
			if n%2 == 0 {
				return tx.Delete(cell(fmt.Sprintf("r%03d", (n+1)%16), "in"))
			}
			return tx.Set(cell(fmt.Sprintf("r%03d", (n+1)%16), "in"), []byte("again"))
		})
		g.due(16)
		g.idle(g.w)
		for i := range 16 {
			row := fmt.Sprintf("r%03d", i)
			if got := g.get(row, "out"); got != "2" {
				t.Errorf("row %s was run for %q times", row, got)
			}
		}
		if left := g.pending(); len(left) != 0 {
			t.Errorf("left: %q", left)
		}
		t.Logf("commits %d, stats %+v", g.commits(), g.w.Stats().ObserverStats)
	})
}

// A run whose time has not ended does not fail for the end of another's.
func TestLeaderWhoseTimeEnds(t *testing.T) {
	eachGrouping(t, func(t *testing.T, g *inGroups) {
		g.r.Observe("o", "t", "in", func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
			g.add(ch.Cell.Row, ch)
			return nil
		}, observers.CommitTogether(), observers.Timeout(10*time.Second))
		g.w, _ = g.start(g.client, g.r, observers.Config{Concurrency: 16, DisableCollection: true, ReportInterval: -1})
		other := g.NewClient()
		hold := percolatortest.NewHold()
		var points atomic.Int64
		g.FaultsOf(g.client).Handle(func(r percolatortest.Request) percolatortest.Action {
			switch {
			case r.Method == percolatortest.Oracle && points.Load() == 0:
				return hold
			case r.Method == percolatortest.CheckAndMutateRow && r.Table == "t" && r.Sets("lock"):
				points.Add(1)
			}
			return percolatortest.Pass
		})
		g.set(other, "r000", "in", "1") // takes the turn
		_ = other.Flush(g.ctx)
		if err := g.w.Survey(g.ctx); err != nil {
			t.Log(err)
		}
		hold.Wait(t, 1)
		g.set(other, "r001", "in", "1") // leads the second group
		_ = other.Flush(g.ctx)
		_ = g.w.Survey(g.ctx)
		g.within(9*time.Second, func() bool { return false })
		g.set(other, "r002", "in", "1") // joins it, with all of its time left
		_ = other.Flush(g.ctx)
		_ = g.w.Survey(g.ctx)
		g.within(2*time.Second, func() bool { return false })
		hold.Release()
		g.within(5*time.Second, func() bool { return g.w.Stats().Runs == 3 })
		s := g.w.Stats()
		t.Logf("%+v; calls for r002: %d", s.ObserverStats, g.count("r002"))
		if s.Errors > 2 {
			t.Errorf("%d errors of two runs whose time has ended", s.Errors)
		}
	})
}

// The others commit while the first one's row does not answer, once its attempt is over at the
// latest: what the shared commit has left in their rows is in nobody's way.
func TestMembersOfAPrimaryThatDoesNotAnswer(t *testing.T) {
	eachGrouping(t, func(t *testing.T, g *inGroups) {
		g.r.Observe("o", "t", "in", func(ctx context.Context, _ *percolator.Txn, ch observers.Change) error {
			if ch.Cell.Row != "r000" { // which comes first, so that the primary is there
				select {
				case <-time.After(500 * time.Microsecond):
				case <-ctx.Done():
				}
			}
			return nil
		}, observers.CommitTogether(), observers.Collapse(togetherAfter), observers.Timeout(5*time.Second))
		g.w, _ = g.start(g.client, g.r, observers.Config{Concurrency: 16, MinBackoff: time.Millisecond, MaxBackoff: time.Second, DisableCollection: true, ReportInterval: -1})
		hold := g.unreachable("r000")
		defer hold.Release()
		g.writeFrom(g.NewClient(), 5)
		g.within(60*time.Second, func() bool { return g.w.Stats().Runs == 4 })
		if n := g.w.Stats().Runs; n != 4 {
			t.Errorf("%d of the 4 others have committed within 60 s: %+v", n, g.w.Stats().ObserverStats)
		}
	})
}

// A prewrite of a shared commit gets no answer for three seconds, or arrives as late. The members
// have committed by themselves meanwhile, and what comes late changes nothing (I2, I32).
func TestLatePrewriteOfASharedCommit(t *testing.T) {
	const cells = 5
	for _, arrives := range []bool{false, true} {
		for nth := range cells {
			t.Run(fmt.Sprintf("request %d, arrives %v", nth, arrives), func(t *testing.T) {
				testGroups(t, func(t *testing.T, g *inGroups) {
					g.observe(func(context.Context, *percolator.Txn, observers.Change) error { return nil })
					hold := percolatortest.NewHold()
					var seen atomic.Int64
					g.FaultsOf(g.client).Handle(func(r percolatortest.Request) percolatortest.Action {
						if r.Table != "t" || !r.Sets("lock") || seen.Add(1) != int64(nth)+1 {
							return percolatortest.Pass
						}
						if arrives {
							return hold.Answer()
						}
						return hold
					})
					g.writeFrom(g.NewClient(), cells)
					hold.Wait(t, 1)
					g.within(3*time.Second, func() bool { return false })
					if n := g.w.Stats().Runs; n < cells-1 {
						t.Errorf("%d of %d others have committed: %+v", n, cells-1, g.w.Stats().ObserverStats)
					}
					hold.Release()
					g.ranOnce(cells)
					g.within(time.Minute, func() bool { return false }) // locks that are left are dead
					for i := range cells {
						if row := fmt.Sprintf("r%03d", i); g.get(row, "out") != "1" {
							t.Errorf("row %s has %q", row, g.get(row, "out"))
						}
					}
					g.Audit(t)
				})
			})
		}
	}
}
