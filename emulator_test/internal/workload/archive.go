package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// Operators delete ranges of the archive, while sessions put, delete and read what is there.
const (
	archive     = "archive"
	archiveRows = 24
)

var ofArchive = index{archive, "shelf", false}

// ArchiveTable is its table, with an index.
func ArchiveTable() percolator.Table {
	return percolator.Table{Name: archive, Indexes: []percolator.Index{{Name: ofArchive.name, Column: ofArchive.name}}}
}

// Archive has the sessions use the archive, in a schema that has it.
func (w *Workload) Archive() {
	w.archived = true
	w.picks = append(slices.Clone(w.picks), pick{8, (*Session).file}, pick{3, (*Session).viewArchive})
}

func archiveRow(n int) string { return fmt.Sprintf("a%02d", n) }

// file puts something into the archive, or takes something out.
func (s *Session) file(ctx context.Context) {
	s.transact(ctx, options{kind: "file"}, func(ctx context.Context, a *attempt) error {
		for range 1 + s.Rand.IntN(3) {
			row := archiveRow(s.Rand.IntN(archiveRows))
			shelf, text := cell(archive, row, "shelf"), cell(archive, row, "text")
			switch s.Rand.IntN(6) {
			case 0:
				return a.delete(text)
			case 1:
				v, err := a.get(ctx, text)
				if err != nil || v == nil {
					return orGiveUp(err)
				}
			}
			if err := errors.Join(a.set(shelf, fmt.Appendf(nil, "s%d", s.Rand.IntN(kinds))), a.set(text, a.unique(""))); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Session) viewArchive(ctx context.Context) {
	s.View(ctx, "view archive", func(ctx context.Context, r Reader) error { return r.checkArchive(ctx, s.Workload) })
}

func (r Reader) checkArchive(ctx context.Context, w *Workload) error {
	if !w.archived {
		return nil
	}
	if err := r.compareIndex(ctx, ofArchive); err != nil {
		return err
	}
	_, err := r.scan(ctx, archive, "", "")
	return err
}

// Deletion is a range of rows of the archive, of all columns or some, that an operator deletes.
type Deletion struct {
	Table   string
	Rows    percolator.Range
	Columns []string
}

// Deletions are those that there may be, each any number of times.
var Deletions = []Deletion{
	{archive, percolator.All(), nil},
	{archive, percolator.Between(archiveRow(3), archiveRow(12)), nil},
	{archive, percolator.Between("", archiveRow(8)), []string{"text"}},
	{archive, percolator.Between(archiveRow(6), ""), []string{"shelf"}},
}

// ViewDeleted looks at a range whose deletion has come to its end: nothing is left of what had
// committed when it began (I29).
func (s *Session) ViewDeleted(ctx context.Context, d Deletion, began tso.Timestamp) {
	s.View(ctx, "view deleted", func(ctx context.Context, r Reader) error {
		es, err := r.scan(ctx, d.Table, d.Rows.Start, d.Rows.End, d.Columns...)
		for _, e := range es {
			if e.Commit <= began {
				r.rec.Broken("a deletion that began at %d has left %s, committed at %d", began, e.Cell, e.Commit)
			}
		}
		return err
	})
}
