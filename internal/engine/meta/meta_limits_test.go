package meta

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/percolator/model"
)

// applying has no rows, and applies every mutation.
type applying struct{ store.Backend }

func (applying) ReadRow(context.Context, string, string, store.Query) (layout.Row, error) {
	return layout.Row{}, nil
}

func (applying) CheckAndMutate(context.Context, string, string, store.Query, *store.Mutation, *store.Mutation) (bool, error) {
	return true, nil
}

func applyingStore(t *testing.T) *store.Store {
	t.Parallel()
	s := store.New(t.Context(), applying{}, &telemetry.Counters{})
	t.Cleanup(s.Stop)
	return s
}

// What grows with the schema is stored up to its limit, and refused beyond it before anything is
// sent. What an earlier version has stored may be longer: it is replaced by what is no longer.
func TestCellsOfTheMetaRowHaveALimit(t *testing.T) {
	s := applyingStore(t)
	for column, c := range map[string]struct {
		state  func(name string) State
		encode func(State) []byte
	}{
		metaSchema: {
			func(name string) State {
				return State{Schema: &model.Schema{Tables: []model.Table{{Name: "t", Observed: []string{name}}}}}
			},
			func(m State) []byte { return catalog.EncodeSchema(m.Schema) },
		},
		ColumnIndexes: {
			func(name string) State { return State{Indexes: IndexStates{name: {Building: true}}} },
			func(m State) []byte { return m.Indexes.Encode() },
		},
		columnLives: {
			func(name string) State { return State{Lives: Lives{name: 1}} },
			func(m State) []byte { return layout.JSON(m.Lives) },
		},
	} {
		of := func(bytes int) State {
			return c.state(strings.Repeat("n", bytes-len(c.encode(c.state("n")))+1))
		}
		stored := State{stored: []layout.Item{{Column: column, Value: c.encode(of(maxCellBytes + 9))}}}
		for _, w := range []struct {
			what    string
			former  State
			bytes   int
			refused bool
		}{
			{"at the limit", State{}, maxCellBytes, false},
			{"beyond the limit", State{}, maxCellBytes + 1, true},
			{"as long as what is stored", stored, maxCellBytes + 9, false},
			{"longer than what is stored", stored, maxCellBytes + 10, true},
		} {
			was := s.Count.CheckAndMutate.Load()
			_, err := w.former.replace(t.Context(), s, of(w.bytes))
			if sent := s.Count.CheckAndMutate.Load() - was; errors.Is(err, model.ErrTooLarge) != w.refused || (sent == 0) != w.refused {
				t.Errorf("%s %s: %.200v, %d requests", column, w.what, err, sent)
			}
		}
	}
}

// creating are tables that are created when they are asked for.
type creating struct{ names *[]string }

func (c creating) Create(_ context.Context, name string, _ []string, _ int, _ ...string) error {
	*c.names = append(*c.names, name)
	return nil
}

func (creating) Families(context.Context, string) (map[string]bool, error) { return nil, nil }

// A schema beyond the limit is refused before its tables are created.
func TestTooLongSchemaCreatesNoTables(t *testing.T) {
	applyingStore(t)
	for more, refused := range map[int]bool{0: false, 1: true} {
		s := schemaOf(t, maxCellBytes+more)
		var created []string
		err := ApplySchemaOn(t.Context(), creating{&created}, applying{}, s)
		if errors.Is(err, model.ErrTooLarge) != refused || slices.Contains(created, "t") == refused {
			t.Errorf("%d bytes beyond the limit: %.200v, created %q", more, err, created)
		}
	}
}

// schemaOf is a schema that is stored in so many bytes.
func schemaOf(t testing.TB, bytes int) *model.Schema {
	t.Helper()
	const usual, frame = 1000, len(`,""`)
	s := &model.Schema{DisableJournal: true, Tables: []model.Table{{Name: "t", Observed: []string{"c"}}}}
	columns := (bytes - len(catalog.EncodeSchema(s))) / (usual + frame)
	for i := range columns {
		n := usual
		if i == columns-1 {
			n = bytes - len(catalog.EncodeSchema(s)) - frame
		}
		s.Tables[0].Observed = append(s.Tables[0].Observed, fmt.Sprintf("%0*d", n, i))
	}
	if n := len(catalog.EncodeSchema(s)); n != bytes {
		t.Fatalf("%d bytes, want %d", n, bytes)
	}
	return s
}

// Ends of lives are remembered up to a limit. Then every life ends, so that no position from before
// is believed, and there is room again.
func TestLivesBeyondTheLimitAllEnd(t *testing.T) {
	t.Parallel()
	for more, forgets := range map[int]bool{0: false, 1: true} {
		frame := len(layout.JSON(Lives{"": 3, "t": 8}))
		long := strings.Repeat("n", maxCellBytes-frame+more)
		m := State{Version: 7, Lives: Lives{long: 3}}
		next := State{Version: 8, Lives: m.ended("t")}
		for name, ends := range map[string]bool{"t": true, long: forgets, "never dropped": forgets} {
			if ended := m.LifeOfTable(name) != next.LifeOfTable(name); ended != ends {
				t.Errorf("%d bytes beyond the limit: the life of %.20q has ended: %v", more, name, ended)
			}
		}
		if size := len(layout.JSON(next.Lives)); size > maxCellBytes || forgets != (size < 100) {
			t.Errorf("%d bytes beyond the limit: %d bytes", more, size)
		}
		last := State{Version: 9, Lives: next.ended("u")}
		if last.LifeOfTable("u") == next.LifeOfTable("u") || (last.LifeOfTable("t") == next.LifeOfTable("t")) != forgets {
			t.Errorf("%d bytes beyond the limit: the next drop leaves lives of %d bytes", more, len(layout.JSON(last.Lives)))
		}
	}
}
