package index

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// Which terms a document has is one cell ([ServedTerms]). The search page asks the opposite: which
// documents have a term. A row for each pair of the two would make a page of a thousand terms
// dearer than all that else is done for it. So the answers are kept in segments, as in a
// log-structured merge tree:
//
//	row     LEVEL.PART.ID   0.00.01a2b3c4d5e6f707
//	column  CELL            2a, by a hash of the term; other columns have a colon
//	value   how often terms occur, by term and URL ([Postings]); 0: no more
//
// A cell has many terms: what a store keeps, filters and deletes is cells, and a page has hundreds
// of terms of its own. A term is looked up in one cell of a segment.
//
// The transaction that publishes documents writes one segment of level 0 with all terms that have
// changed, so a segment is never ahead of the documents or behind them, in any snapshot. Merging
// (see [merge]) makes few large segments of many small ones. From level 1 on a segment is divided
// into parts by term, which are merged independently.
//
// Of several segments that say something of a term in a document the one of the lowest level is
// right, and on one level the one with the greatest ID: the start timestamp of the youngest
// transaction whose changes it holds. Two transactions that publish the same document conflict, so
// the one with the later start timestamp has seen the other.
const (
	// SegmentParts is into how many parts a level is divided, but for level 0.
	SegmentParts = 64
	// segmentCells is into how many cells the terms of a segment are divided.
	segmentCells = 64
	// MaxLevel is the last level. Its segments are merged with each other.
	MaxLevel = 6
)

// Segment names a segment.
type Segment struct {
	Level, Part int
	ID          tso.Timestamp
}

// partsAt is how many parts a level has.
func partsAt(level int) int {
	if level == 0 {
		return 1
	}
	return SegmentParts
}

// PartOf is the part of a level that has the term.
func PartOf(level int, term string) int { return int(hashOf(term) % uint32(partsAt(level))) }

func hashOf(term string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(term))
	return h.Sum32()
}

// partRow is the row that is notified when the part of the level gets another segment.
func partRow(level, part int) string { return fmt.Sprintf("%d.%02x", level, part) }

// Row is the segment's row.
func (s Segment) Row() string { return fmt.Sprintf("%s.%016x", partRow(s.Level, s.Part), uint64(s.ID)) }

// ParseSegment is the inverse of Segment.Row.
func ParseSegment(row string) (s Segment, err error) {
	level, rest, _ := strings.Cut(row, ".")
	part, id, _ := strings.Cut(rest, ".")
	l, errLevel := strconv.ParseUint(level, 10, 8)
	p, errPart := strconv.ParseUint(part, 16, 8)
	n, errID := strconv.ParseUint(id, 16, 64)
	s = Segment{int(l), int(p), tso.Timestamp(n)}
	if errors.Join(errLevel, errPart, errID) != nil || s.Row() != row {
		return Segment{}, fmt.Errorf("%q is no row of a segment", row)
	}
	return s, nil
}

// Postings are how often terms occur in documents, by term and URL, as segments say; 0: no more.
type Postings map[string]map[string]int

// PostingsOf is the column of a segment that has a term, among others.
func PostingsOf(term string) percolator.Column[Postings] {
	return PostingsIn(fmt.Sprintf("%02x", hashOf(term)/SegmentParts%segmentCells))
}

// PostingsIn is the column of a cell of segments.
func PostingsIn(cell string) percolator.Column[Postings] {
	return percolator.JSON[Postings](Segments, cell)
}

func (p Postings) add(term, url string, n int) {
	if p[term] == nil {
		p[term] = map[string]int{}
	}
	p[term][url] = n
}

// Overlay adds what a younger segment says.
func (p Postings) Overlay(younger Postings) {
	for term, frequencies := range younger {
		if p[term] == nil {
			p[term] = map[string]int{}
		}
		maps.Copy(p[term], frequencies)
	}
}

// move adds the difference between two versions of a document's terms.
func (p Postings) move(url string, before, after map[string]int) {
	for term, n := range after {
		if before[term] != n {
			p.add(term, url, n)
		}
	}
	for term := range before {
		if after[term] == 0 {
			p.add(term, url, 0)
		}
	}
}

// write stores the postings as a segment, and notifies merge.
func (p Postings) write(tx *percolator.Txn, s Segment) error {
	if len(p) == 0 {
		return nil
	}
	row, size := s.Row(), 0
	cells := map[string]Postings{}
	for term, frequencies := range p {
		cell := PostingsOf(term).Name
		if cells[cell] == nil {
			cells[cell] = Postings{}
		}
		cells[cell][term] = frequencies
		size += len(term)
		for url := range frequencies {
			size += len(url)
		}
	}
	for _, cell := range slices.Sorted(maps.Keys(cells)) {
		if err := PostingsIn(cell).Set(tx, row, cells[cell]); err != nil {
			return err
		}
	}
	if err := SegmentBytes.Set(tx, row, int64(size)); err != nil {
		return err
	}
	return Merge.Notify(tx, partRow(s.Level, s.Part))
}

// Lookup returns how often a term occurs in documents, by URL. It is one request as long as there
// is little to find, and reads no further segment once it has read limit entries; partial: there
// may be more.
func Lookup(ctx context.Context, r percolator.Scanner, term string, limit int) (found map[string]int, partial bool, err error) {
	column := PostingsOf(term)
	o := percolator.ScanOptions{Columns: []string{column.Name}}
	for level := range MaxLevel + 1 {
		o.Rows = append(o.Rows, percolator.Prefix(partRow(level, PartOf(level, term))+"."))
	}
	var levels [MaxLevel + 1]map[string]int
	read := 0
	for e, err := range column.ScanWith(ctx, r, o) {
		if err != nil {
			return nil, false, err
		}
		frequencies := e.Value[term]
		if read += len(frequencies); read > limit {
			partial = true
			break
		}
		s, err := ParseSegment(e.Cell.Row)
		if err != nil || s.Level > MaxLevel {
			return nil, false, fmt.Errorf("%w: %s is in no segment", percolator.ErrCorrupt, e.Cell)
		}
		if levels[s.Level] == nil {
			levels[s.Level] = map[string]int{}
		}
		maps.Copy(levels[s.Level], frequencies)
	}
	found = map[string]int{}
	for _, level := range slices.Backward(levels[:]) { // what younger ones say is right
		maps.Copy(found, level)
	}
	maps.DeleteFunc(found, func(_ string, n int) bool { return n == 0 })
	return found, partial, nil
}
