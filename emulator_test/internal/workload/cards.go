package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gopercolator/percolator/percolator"
)

// Cards have an index that operators drop and build anew, again and again, while sessions move
// cards and scan the index, some of them slowly. There are more of them than on the first page of a
// scan.
const (
	cards     = "cards"
	cardRows  = 80
	topics    = 12
	oftenCard = 3 // a session looks at them once in so many times while the index is being dropped
	slowly    = 4 // a scan is slow once in so many times
)

var ofCards = index{cards, "topic", false}

// AddCards adds the table of cards to a schema, without the index, and has sessions use it.
func (w *Workload) AddCards(s *percolator.Schema) {
	w.carded = true
	w.picks = append(slices.Clone(w.picks), pick{5, (*Session).moveCards}, pick{3, (*Session).viewCards})
	s.Tables = append(s.Tables, percolator.Table{Name: cards})
}

// IndexCards adds the index to a schema, unless it has it.
func IndexCards(s *percolator.Schema) {
	WithoutCards(s)
	t := &s.Tables[slices.IndexFunc(s.Tables, func(t percolator.Table) bool { return t.Name == cards })]
	t.Indexes = append(t.Indexes, percolator.Index{Name: ofCards.name, Column: ofCards.name})
}

// WithoutCards takes the index from a schema.
func WithoutCards(s *percolator.Schema) {
	t := &s.Tables[slices.IndexFunc(s.Tables, func(t percolator.Table) bool { return t.Name == cards })]
	t.Indexes = slices.DeleteFunc(slices.Clone(t.Indexes), func(ix percolator.Index) bool { return ix.Name == ofCards.name })
}

// CardIndex is the table and the name of the index.
func CardIndex() (table, name string) { return ofCards.table, ofCards.name }

// WaitForCards says that holds are in the way of the drop of the index: sessions take no new ones.
func (w *Workload) WaitForCards() { w.cardsAt.Store(uint32(dropWaits)) }

// DropCards says that the index is being dropped.
func (w *Workload) DropCards() { w.cardsAt.Store(uint32(dropUnderWay)) }

// LeaveCards says that it is not.
func (w *Workload) LeaveCards() { w.cardsAt.Store(uint32(dropPending)) }

func card(n int) percolator.Cell { return cell(cards, fmt.Sprintf("c%02d", n), ofCards.name) }

func topic(n int) []byte { return fmt.Appendf(nil, "t%02d", n) }

// newCards are the first ones, if there are any.
func (w *Workload) newCards(a *attempt) (errs error) {
	for n := range cardRows {
		if w.carded {
			errs = errors.Join(errs, a.set(card(n), topic(n%topics)))
		}
	}
	return errs
}

// moveCards gives some cards another topic.
func (s *Session) moveCards(ctx context.Context) {
	s.transact(ctx, options{kind: "move cards"}, func(_ context.Context, a *attempt) error {
		for _, n := range s.Rand.Perm(cardRows)[:1+s.Rand.IntN(3)] {
			if err := a.set(card(n), topic(s.Rand.IntN(topics))); err != nil {
				return err
			}
		}
		return nil
	})
}

// someCards reports whether the session does something with cards next, because their index is
// being dropped.
func (s *Session) someCards() bool {
	return dropStage(s.cardsAt.Load()) == dropUnderWay && s.Rand.IntN(oftenCard) == 0
}

// useCards looks at cards, or moves some.
func (s *Session) useCards(ctx context.Context) {
	if s.Rand.IntN(2) == 0 {
		s.moveCards(ctx)
		return
	}
	s.viewCards(ctx)
}

// viewCards compares the index with the table. The scan of the index may pause behind the first
// entry.
func (s *Session) viewCards(ctx context.Context) {
	s.View(ctx, "view cards", func(ctx context.Context, r Reader) error {
		if s.Rand.IntN(slowly) == 0 {
			r.pause = time.Duration(s.Rand.Int64N(int64(time.Second)))
		}
		return r.compareIndex(ctx, ofCards)
	})
}

// leafCards is viewCards by someone who takes longer.
func (s *Session) leafCards(ctx context.Context) {
	s.View(ctx, "leaf cards", func(ctx context.Context, r Reader) error {
		r.pause = time.Duration(s.Rand.Int64N(int64(leafMost)))
		return r.compareIndex(ctx, ofCards)
	})
}

// leafMost bounds the pause of a scan that takes long.
const leafMost = 2 * time.Minute

// checkCards compares the index with the table, if a schema has it.
func (r Reader) checkCards(ctx context.Context, s *percolator.Schema) error {
	at := slices.IndexFunc(s.Tables, func(t percolator.Table) bool { return t.Name == cards })
	if at < 0 || len(s.Tables[at].Indexes) == 0 {
		return nil
	}
	return r.compareIndex(ctx, ofCards)
}
