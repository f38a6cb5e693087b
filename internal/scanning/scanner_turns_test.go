package scanning

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
)

// slowSource has a large table of rows 000 to 999, each of which takes a second to pass over, and
// small ones that take none. Nothing is found.
type slowSource struct {
	now   time.Time
	reads []string
	over  map[int]int // how often each row of the large table was passed over
	fails string      // the table that cannot be read
}

var errTable = errors.New("the table cannot be read")

func (s *slowSource) ReadPage(_ context.Context, table string, r percolator.Range, _ int, _ func(string) bool) (Page, error) {
	s.reads = append(s.reads, table)
	if table == s.fails {
		return Page{}, errTable
	}
	if table != "large" {
		return Page{}, nil
	}
	started := s.now
	for i := range 1000 {
		key := strconv.Itoa(1000 + i)[1:]
		switch {
		case !catalog.InRange(r, key):
		case s.now.Sub(started) >= Turn:
			return Page{More: true, Next: key}, nil
		default:
			s.over[i]++
			s.now = s.now.Add(time.Second)
		}
	}
	return Page{}, nil
}

func (s *slowSource) Work(context.Context, []model.Pending) (foundNew, inQueue bool) {
	return false, false
}

func newTurnScanner(source *slowSource) *Scanner {
	return &Scanner{
		Source: source, Tables: []string{"large", "small", "tiny"}, Counts: &Counts{}, Random: seeded(), Rows: NewRowLocks(),
		Now:    func() time.Time { return source.now },
		Places: newTestPlaces(func(context.Context, string) ([]string, error) { return []string{"300"}, nil }),
		Remote: NewRemoteLocks(nil, nothingLeft, time.Now),
	}
}

// TestALargeTableDoesNotStarveSmallOnes: a search goes once through a table that takes long, from
// where its turns ended, and between two of these turns through all the others.
func TestALargeTableDoesNotStarveSmallOnes(t *testing.T) {
	t.Parallel()
	source := &slowSource{over: map[int]int{}}
	s := newTurnScanner(source)
	if _, read, err := s.Search(t.Context()); err != nil || read != 1000*time.Second {
		t.Errorf("read for %v, %v", read, err)
	}
	for i := range 1000 {
		if n := source.over[i]; n != 1 {
			t.Fatalf("row %d was passed over %d times", i, n)
		}
	}
	for _, small := range s.Tables[1:] {
		longest, since := 0, 0
		for _, table := range source.reads {
			switch table {
			case "large":
				since++
				longest = max(longest, since)
			case small:
				since = 0
			}
		}
		if longest > 4 || !slices.Contains(source.reads, small) {
			t.Errorf("%s waited for %d turns of the large table", small, longest)
		}
	}
}

// TestATableThatFailsDoesNotEndTheSearch: it ends with the error, after all other tables.
func TestATableThatFailsDoesNotEndTheSearch(t *testing.T) {
	t.Parallel()
	source := &slowSource{over: map[int]int{}, fails: "small"}
	s := newTurnScanner(source)
	if _, read, err := s.Search(t.Context()); !errors.Is(err, errTable) || read != 1000*time.Second {
		t.Errorf("read for %v, %v", read, err)
	}
	for _, table := range s.Tables {
		if !slices.Contains(source.reads, table) {
			t.Errorf("%s was not read", table)
		}
	}
}
