package index

import (
	"context"
	"fmt"
	"maps"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

const (
	// mergeLeast is of how many segments merge makes one. A part of a level has fewer when nothing
	// is left to do, so a term is looked up in fewer than mergeLeast × MaxLevel of them.
	mergeLeast = 8
	// mergeBytes ends what one merge takes: the segment that reaches it is the last one.
	mergeBytes = 8 << 20
)

// merge runs when parts of levels have got other segments. Where there are enough, it makes of the
// oldest one segment in each part of the next level, or of the same level, if that is the last one.
// Two merges of the same part both delete the oldest segment, so one of them fails.
func merge(ctx context.Context, tx *percolator.Txn, changes []observers.Change) error {
	parts := rowsOf(changes)
	segments, err := listSegments(ctx, tx, parts)
	if err != nil {
		return err
	}
	size := 0
	for _, part := range parts {
		if len(segments[part]) < mergeLeast {
			continue
		}
		if size >= mergeBytes { // the others are for the next run
			if err := Merge.Notify(tx, part); err != nil {
				return err
			}
			continue
		}
		n, err := mergePart(ctx, tx, part, segments[part])
		if err != nil {
			return err
		}
		size += n
	}
	return nil
}

// listSegments lists the segments of some parts, by part and the oldest first.
func listSegments(ctx context.Context, r percolator.Scanner, parts []string) (map[string][]Segment, error) {
	var rows []percolator.Range
	for _, part := range parts {
		rows = append(rows, percolator.Prefix(part+"."))
	}
	segments := map[string][]Segment{}
	for e, err := range r.ScanWith(ctx, Segments, percolator.ScanOptions{Rows: rows, Columns: []string{SegmentBytes.Name}}) {
		if err != nil {
			return nil, err
		}
		s, err := ParseSegment(e.Cell.Row)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", percolator.ErrCorrupt, err)
		}
		part := partRow(s.Level, s.Part)
		segments[part] = append(segments[part], s)
	}
	return segments, nil
}

// mergePart merges the oldest segments of a part, and returns how many bytes they have.
func mergePart(ctx context.Context, tx *percolator.Txn, part string, segments []Segment) (size int, err error) {
	m, err := collectSegments(ctx, tx, segments)
	if err != nil {
		return 0, err
	}
	to := min(m.last.Level+1, MaxLevel)
	if err := m.forgetZeros(ctx, tx, to); err != nil {
		return 0, err
	}
	for _, c := range m.cells {
		if err := tx.Delete(c); err != nil {
			return 0, err
		}
	}
	for p, postings := range m.divided(to) {
		if err := postings.write(tx, Segment{to, p, m.last.ID}); err != nil {
			return 0, err
		}
	}
	if m.last != segments[len(segments)-1] {
		return m.size, Merge.Notify(tx, part)
	}
	return m.size, nil
}

// merged is what segments of one part say together.
type merged struct {
	Postings
	last  Segment // the youngest
	cells []percolator.Cell
	size  int
}

// collectSegments reads segments of a part, the oldest first, as far as mergeBytes goes, but
// mergeLeast at least.
func collectSegments(ctx context.Context, r percolator.Scanner, segments []Segment) (*merged, error) {
	m := &merged{Postings: Postings{}}
	read := map[Segment]bool{}
	rows := percolator.Between(segments[0].Row(), segments[len(segments)-1].Row()+"\x00")
	for e, err := range r.Scan(ctx, Segments, rows) {
		if err != nil {
			return nil, err
		}
		s, err := ParseSegment(e.Cell.Row)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", percolator.ErrCorrupt, err)
		}
		if !read[s] && m.size >= mergeBytes && len(read) >= mergeLeast {
			break
		}
		m.last, read[s] = s, true
		m.cells, m.size = append(m.cells, e.Cell), m.size+len(e.Cell.Column)+len(e.Value)
		if e.Cell.Column == SegmentBytes.Name {
			continue
		}
		postings, err := PostingsIn(e.Cell.Column).Decode(e.Cell.Row, e.Value)
		if err != nil {
			return nil, err
		}
		m.Overlay(postings)
	}
	return m, nil
}

// forgetZeros leaves out which terms documents have no more, if no older segment says otherwise:
// none does when the oldest ones of the deepest level are merged. One that this snapshot does not
// show would come from another merge of the same part, which conflicts with this one.
func (m *merged) forgetZeros(ctx context.Context, tx *percolator.Txn, to int) error {
	deepest, err := Deepest.GetOr(ctx, tx, deepestRow, 0)
	if err != nil || int64(m.last.Level) < deepest {
		return err
	}
	for term, frequencies := range m.Postings {
		maps.DeleteFunc(frequencies, func(_ string, n int) bool { return n == 0 })
		if len(frequencies) == 0 {
			delete(m.Postings, term)
		}
	}
	if int64(to) > deepest {
		return Deepest.Set(tx, deepestRow, int64(to))
	}
	return nil
}

// divided are the postings by the part of a level to which they belong.
func (m *merged) divided(level int) map[int]Postings {
	out := map[int]Postings{}
	for term, frequencies := range m.Postings {
		part := PartOf(level, term)
		if out[part] == nil {
			out[part] = Postings{}
		}
		out[part][term] = frequencies
	}
	return out
}
