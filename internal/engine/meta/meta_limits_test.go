package meta

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/percolator/model"
)

// applying applies every mutation.
type applying struct{ store.Backend }

func (applying) CheckAndMutate(context.Context, string, string, store.Query, *store.Mutation, *store.Mutation) (bool, error) {
	return true, nil
}

// What grows with the schema is stored up to its limit, and refused beyond it before anything is
// sent.
func TestCellsOfTheMetaRowHaveALimit(t *testing.T) {
	t.Parallel()
	s := store.New(t.Context(), applying{}, &telemetry.Counters{})
	defer s.Stop()
	for more, refused := range map[int]bool{0: false, 1: true} {
		const frame = len(`{"":1}`)
		was := s.Count.CheckAndMutate.Load()
		lives := Lives{strings.Repeat("n", maxCellBytes-frame+more): 1}
		_, err := State{}.replace(t.Context(), s, State{Lives: lives})
		if sent := s.Count.CheckAndMutate.Load() - was; errors.Is(err, model.ErrTooLarge) != refused || (sent == 0) != refused {
			t.Errorf("%d bytes beyond the limit: %v, %d requests", more, err, sent)
		}
	}
}
