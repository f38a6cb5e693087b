package percolator_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// history is what was committed, for reads to be compared with when everything is over.
type history struct {
	mu      sync.Mutex
	changes map[percolator.Cell][]change
}

type change struct {
	at    tso.Timestamp
	value string // "" for a deletion
}

func (h *history) add(ts tso.Timestamp, c percolator.Cell, value string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes[c] = append(h.changes[c], change{ts, value})
}

// at is the value of a cell in a snapshot.
func (h *history) at(ts tso.Timestamp, c percolator.Cell) (value string) {
	newest := tso.Timestamp(0)
	for _, ch := range h.changes[c] {
		if ch.at <= ts && ch.at > newest {
			newest, value = ch.at, ch.value
		}
	}
	return value
}

type reading struct {
	at    tso.Timestamp
	cell  percolator.Cell
	value string
}

// Hundreds of readers, whose requests travel together or alone, read cells that writers change,
// delete, lock and abandon. Every answer is the one of its snapshot.
func TestConcurrentReadsMatchTheirSnapshots(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	for _, way := range []struct{ batching, wholeRows bool }{{true, false}, {false, false}, {true, true}, {false, true}} {
		t.Run(fmt.Sprintf("%+v", way), func(t *testing.T) {
			t.Parallel()
			configure := percolatortest.Configure(func(cfg *percolator.Config) { cfg.DisableBatching = !way.batching })
			env := fixture.NewEnv(t, configure)
			ctx, c := fixture.Context(t), env.Client
			if way.wholeRows {
				c.Engine().Reads.ReadWholeRowsAfter(0)
			} else {
				c.Engine().Reads.ReadWholeRowsAfter(1 << 20)
			}
			const rows, writers, writes, readers, reads = 8, 4, 12, 256, 3
			columns := []string{"a", "b", "d"}
			h := &history{changes: map[percolator.Cell][]change{}}
			anyCell := func() percolator.Cell {
				return fixture.Cell(fixture.Key(rand.IntN(rows)), columns[rand.IntN(len(columns))])
			}

			var wg sync.WaitGroup
			for w := range writers {
				wg.Add(1)
				go func() {
					defer wg.Done()
					for i := range writes {
						first, second := anyCell(), anyCell()
						written := map[percolator.Cell]string{}
						ts, err := c.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
							clear(written)
							for n, at := range []percolator.Cell{first, second} {
								switch {
								case (i+n)%5 == 4:
									written[at] = ""
									if err := tx.Delete(at); err != nil {
										return err
									}
								case (i+n)%7 == 6 && written[at] == "":
									if _, err := tx.GetForUpdate(ctx, at); err != nil && !errors.Is(err, percolator.ErrNotFound) {
										return err
									}
								default:
									written[at] = fmt.Sprint(w, ".", i, ".", n)
									if err := tx.Set(at, []byte(written[at])); err != nil {
										return err
									}
								}
							}
							return nil
						})
						if err != nil {
							t.Error(err)
							return
						}
						for at, v := range written {
							h.add(ts, at, v)
						}
					}
				}()
			}
			var mu sync.Mutex
			var all []reading
			for range readers {
				wg.Add(1)
				go func() {
					defer wg.Done()
					var mine []reading
					for i := range reads {
						s, err := c.Snapshot(ctx)
						if err != nil {
							t.Error(err)
							return
						}
						cells := []percolator.Cell{anyCell()}
						if i%3 == 2 {
							cells = append(cells, anyCell(), anyCell(), anyCell())
						}
						values, err := s.GetMulti(ctx, cells...)
						if err != nil {
							t.Error(err)
							return
						}
						for j, at := range cells {
							mine = append(mine, reading{s.StartTimestamp(), at, string(values[j])})
						}
						other := fixture.Cell(cells[0].Row, columns[rand.IntN(len(columns))]) // its row may have been read whole
						again, err := s.GetMulti(ctx, cells[0], other)
						if err != nil || string(again[0]) != string(values[0]) {
							t.Errorf("%s at %d: first %q, then %q, %v", cells[0], s.StartTimestamp(), values[0], again, err)
							return
						}
						mine = append(mine, reading{s.StartTimestamp(), other, string(again[1])})
					}
					mu.Lock()
					defer mu.Unlock()
					all = append(all, mine...)
				}()
			}
			wg.Wait()
			for _, r := range all {
				if want := h.at(r.at, r.cell); r.value != want {
					t.Errorf("%s at %d: %q, want %q", r.cell, r.at, r.value, want)
				}
			}
			// And in the end, by scan, at every commit there was.
			for _, changes := range h.changes {
				slices.SortFunc(changes, func(a, b change) int { return int(a.at - b.at) })
				s, err := c.Snapshot(ctx, percolator.AsOfTimestamp(changes[len(changes)/2].at))
				fixture.Must(t, err)
				seen := map[percolator.Cell]string{}
				for e, err := range s.Scan(ctx, "t", percolator.All()) {
					fixture.Must(t, err)
					seen[e.Cell] = string(e.Value)
				}
				for at := range h.changes {
					if want := h.at(s.StartTimestamp(), at); seen[at] != want {
						t.Errorf("scanned %s at %d: %q, want %q", at, s.StartTimestamp(), seen[at], want)
					}
				}
			}
		})
	}
}

// Reads that wait for one in flight travel in one request, each with its own snapshot; the batch
// asks for the newest versions only, and who needs older ones still gets them.
func TestBatchOfManySnapshots(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	var snapshots []*percolator.Snapshot
	for i := range 30 {
		fixture.Put(t, ctx, c, "r", "c", fmt.Sprint(i), fixture.Key(i), "c", fmt.Sprint(i))
		s, err := c.Snapshot(ctx)
		fixture.Must(t, err)
		snapshots = append(snapshots, s)
	}
	fixture.Must(t, c.Flush(ctx))
	held := percolatortest.NewHold()
	env.FaultsOf(c).Handle(fixture.AtMost(2, func(r percolatortest.Request) bool { return r.Method == percolatortest.ReadRows }, held))
	env.FaultsOf(c).Forget()
	var wg sync.WaitGroup
	check := func(s *percolator.Snapshot, row, want string) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			fixture.WantValue(t, ctx, s, fixture.Cell(row, "c"), want)
		}()
	}
	check(snapshots[29], "r", "29")
	held.Wait(t, 1)
	check(snapshots[28], "r", "28")
	held.Wait(t, 2) // both places are taken: the others gather
	for i, s := range snapshots[:28] {
		check(s, "r", fmt.Sprint(i))
		check(s, fixture.Key(i), fmt.Sprint(i))
		check(s, fixture.Key(i+1), "")
	}
	held.Release()
	wg.Wait()
}

// Who gives up while its read waits in a batch disturbs nobody.
func TestReaderLeavesABatch(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "r", "c", "v")
	s, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	held := percolatortest.NewHold()
	env.FaultsOf(c).Handle(fixture.AtMost(2, func(r percolatortest.Request) bool { return r.Method == percolatortest.ReadRows }, held))
	results := make(chan error, 2)
	for i := range 2 {
		go func() { results <- fixture.ErrOf(s.Get(ctx, fixture.Cell(fixture.Key(i), "c"))) }()
		held.Wait(t, i+1)
	}
	leaving, leave := context.WithCancel(ctx)
	left := make(chan error, 1)
	go func() { left <- fixture.ErrOf(s.Get(leaving, fixture.Cell("r", "c"))) }()
	stays := make(chan error, 1)
	go func() { stays <- fixture.ErrOf(s.Get(ctx, fixture.Cell("r", "c"))) }()
	leave()
	fixture.WantErr(t, <-left, context.Canceled)
	held.Release()
	fixture.Must(t, <-stays)
	for range 2 {
		fixture.WantErr(t, <-results, percolator.ErrNotFound)
	}
}
