package ycsb

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A transfer whose client dies at any of its writes changes no sum, and the next one goes on.
func TestEconomyOutlivesClients(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, OurSchema())
	loaded(t, NewOurs(env.Client, testShape.Fields))
	transfer := func(ctx context.Context, _ int, c *percolator.Client) error {
		return NewOurs(c, testShape.Fields).Transfer(ctx, Key(0), Key(1), 5)
	}
	env.DieAtEach(transfer, func(ctx context.Context, run int, c *percolator.Client) error {
		n, err := Score(ctx, NewOurs(c, testShape.Fields), testShape.Accounts, 1)
		if err == nil && n != 0 {
			err = fmt.Errorf("score %v", n)
		}
		return errors.Join(err, transfer(ctx, run, c))
	})
}

// Transfers whose answers are lost change no sum.
func TestEconomyWithoutAnswers(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, OurSchema())
	s := NewOurs(env.Client, testShape.Fields)
	loaded(t, s)
	writes := 0
	env.FaultsOf(env.Client).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.CheckAndMutateRow {
			if writes++; writes%3 == 0 {
				return percolatortest.LoseAnswer
			}
		}
		return percolatortest.Pass
	})
	for i := range 20 {
		err := s.Transfer(t.Context(), Key(0), Key(1), int64(i))
		if err != nil && !errors.Is(err, percolator.ErrOutcomeUnknown) {
			t.Fatal(err)
		}
	}
	if writes < 20 {
		t.Fatalf("%d writes", writes)
	}
	if n := score(t.Context(), t, s); n != 0 {
		t.Errorf("score %v", n)
	}
}
