package workload

import (
	"context"
	"fmt"
	"slices"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/percolator"
)

// index is one of the workload's, over the column of its own name.
type index struct {
	table, name string
	unique      bool
}

// ofPeople are the indexes that come with their table.
var ofPeople = []index{{people, "mail", true}, {people, "city", false}}

// scanIndex scans a range of values.
func (r Reader) scanIndex(ctx context.Context, ix index, from, to string) ([]history.Entry, error) {
	var es []history.Entry
	o := percolator.ScanOptions{Index: ix.name, Rows: []percolator.Range{percolator.Between(from, to)}, Reverse: r.StartTimestamp()%2 == 0}
	for e, err := range r.ScanWith(ctx, ix.table, o) {
		if err != nil {
			corrupt(r.rec, err)
			return nil, err
		}
		if es = append(es, history.Entry{Cell: history.Cell(e.Cell), Value: e.Value}); len(es) == 1 && r.pause > 0 {
			wait(ctx, r.pause)
		}
	}
	if o.Reverse {
		slices.Reverse(es)
	}
	r.rec.IndexScan(ix.table, ix.name, from, to, es)
	r.keepScan("index "+ix.table+"."+ix.name, from, to, nil, es)
	return es, nil
}

// compareIndex reads an index and its table at the snapshot: they say the same, whatever is known
// about who wrote it.
func (r Reader) compareIndex(ctx context.Context, ix index) error {
	entries, err := r.scanIndex(ctx, ix, "", "")
	if err != nil {
		return err
	}
	cells, err := r.scan(ctx, ix.table, "", "", ix.name)
	if err != nil {
		return err
	}
	judge := history.Index{Name: ix.table + "." + ix.name, Unique: ix.unique}
	for _, e := range entries {
		judge.AddEntry(string(e.Value), e.Cell.Row)
	}
	for _, e := range cells {
		judge.AddRow(e.Cell.Row, string(e.Value))
	}
	r.rec.Judged(judge.Check()...)
	return nil
}

// checkPeople compares both indexes of people with the table.
func (r Reader) checkPeople(ctx context.Context) error {
	for _, ix := range ofPeople {
		if err := r.compareIndex(ctx, ix); err != nil {
			return err
		}
	}
	return nil
}

// viewPeople looks at people by their table and by both indexes.
func (s *Session) viewPeople(ctx context.Context) {
	s.View(ctx, "view people", func(ctx context.Context, r Reader) error {
		if s.Rand.IntN(3) == 0 {
			return r.checkPeople(ctx)
		}
		from := fmt.Sprintf("m%02d", s.Rand.IntN(mails))
		if _, err := r.scanIndex(ctx, ofPeople[0], from, ""); err != nil {
			return err
		}
		city := s.Rand.IntN(cities)
		if _, err := r.scanIndex(ctx, ofPeople[1], fmt.Sprintf("city%d", city), fmt.Sprintf("city%d", city+1)); err != nil {
			return err
		}
		_, err := r.scan(ctx, people, "", "")
		return err
	})
}

// viewPersons reads the columns of each person one after the other, always in the same order: what
// the prefetcher learns and fetches ahead must be what a read would find.
func (s *Session) viewPersons(ctx context.Context) {
	s.View(ctx, "view persons", func(ctx context.Context, r Reader) error {
		for _, n := range s.Rand.Perm(persons) {
			for _, column := range []string{"city", "mail"} {
				if _, err := r.cells(ctx, person(n, column)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
