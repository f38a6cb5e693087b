package workload

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// A chain begins with a head. An observer divides it into legs, each in a row of its own; a batch
// observer makes stops of them; and a third one gathers the stops of a chain in its end.
const (
	chains    = "chains"
	chainRows = 5
	chainLegs = 3
)

func chainRow(n int) string { return fmt.Sprintf("chain%d", n) }

// legOf is what a leg says that follows from a head: nothing if there is no head.
func legOf(head string, leg int) string {
	if head == "" {
		return ""
	}
	return fmt.Sprintf("%s.%d", head, leg)
}

func legRow(chain string, leg int) string { return fmt.Sprintf("%s-%d", chain, leg) }

// moveChain gives a chain another head, or none.
func (s *Session) moveChain(ctx context.Context) {
	s.transact(ctx, options{kind: "chain"}, func(ctx context.Context, a *attempt) error {
		head := cell(chains, chainRow(s.Rand.IntN(chainRows)), "head")
		if s.Rand.IntN(6) == 0 {
			return a.delete(head)
		}
		return a.set(head, a.unique(strconv.FormatInt(a.id, 10)))
	})
}

// observeChains registers the observers of chains.
func (w *Workload) observeChains(r *observers.Registry, worker string) {
	w.observe(r, worker, "divide", chains, "head", func(_ context.Context, a *attempt, ch observers.Change) error {
		for leg := range chainLegs {
			if err := a.follow(cell(chains, legRow(ch.Cell.Row, leg), "leg"), ch, legOf(says(ch.Value), leg)); err != nil {
				return err
			}
		}
		return nil
	})
	r.ObserveBatch("carry", chains, "leg", w.observer(worker, "carry", func(_ context.Context, a *attempt, ch observers.Change) error {
		return a.follow(cell(chains, ch.Cell.Row, "stop"), ch, says(ch.Value))
	}), observers.MaxCells(5), observers.MaxWait(10*time.Millisecond))
	w.observe(r, worker, "gather", chains, "stop", func(ctx context.Context, a *attempt, ch observers.Change) error {
		return a.gather(ctx, ch.Cell.Row[:strings.LastIndexByte(ch.Cell.Row, '-')])
	}, observers.After(100*time.Millisecond, "divide", "carry"))
}

// follow writes what follows from a change to a cell.
func (a *attempt) follow(c percolator.Cell, ch observers.Change, text string) error {
	if ch.Deleted {
		return a.delete(c)
	}
	return a.set(c, a.unique(text))
}

// gather writes the end of a chain, if all of its stops are there.
func (a *attempt) gather(ctx context.Context, chain string) error {
	var cells []percolator.Cell
	for leg := range chainLegs {
		cells = append(cells, cell(chains, legRow(chain, leg), "stop"))
	}
	stops, err := a.getMulti(ctx, cells...)
	if err != nil {
		return err
	}
	var texts []string
	for _, v := range stops {
		if v == nil {
			return a.delete(cell(chains, chain, "end"))
		}
		texts = append(texts, says(v))
	}
	return a.set(cell(chains, chain, "end"), a.unique(strings.Join(texts, " ")))
}

func (s *Session) viewChains(ctx context.Context) {
	s.View(ctx, "view chains", func(ctx context.Context, r Reader) error { return r.checkChains(ctx, false) })
}

// checkChains scans all chains. The legs of one are always of the same head; at rest the end is as
// well.
func (r Reader) checkChains(ctx context.Context, rested bool) error {
	es, err := r.scan(ctx, chains, "", "")
	if err != nil {
		return err
	}
	found := map[history.Cell]string{}
	for _, e := range es {
		found[e.Cell] = says(e.Value)
	}
	at := func(row, column string) string { return found[history.Cell{Table: chains, Row: row, Column: column}] }
	for n := range chainRows {
		chain := chainRow(n)
		head, _, _ := strings.Cut(at(legRow(chain, 0), "leg"), ".")
		if rested {
			head = at(chain, "head")
		}
		var legs, want []string
		for leg := range chainLegs {
			legs = append(legs, at(legRow(chain, leg), "leg"))
			want = append(want, legOf(head, leg))
		}
		if !slices.Equal(legs, want) {
			r.rec.Broken("%s has the legs %q and not %q", chain, legs, want)
		}
		if end := at(chain, "end"); rested && end != strings.TrimSpace(strings.Join(want, " ")) {
			r.rec.Broken("%s ends with %q and not with %q", chain, end, want)
		}
	}
	return nil
}
