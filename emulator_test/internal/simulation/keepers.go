package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator"
)

// Keepers take turns by a value of the instance's own table that is too long to be compared whole,
// as leases, positions and shares of large installations are (J10). At most one of them has its
// turn, however late their requests arrive.
const (
	keepersRow = "keepers"
	turnColumn = "turn"
	turnBytes  = 12 << 10 // a filter that named it twice would be refused
	turnEvery  = 300 * time.Millisecond
	turnTakes  = 50 * time.Millisecond
)

// turn is who has it; "": nobody.
type turn struct{ Holder, Padding string }

func turnOf(holder string) []byte {
	b, err := json.Marshal(turn{holder, strings.Repeat("-", turnBytes)})
	if err != nil {
		panic(err) // strings always marshal
	}
	return b
}

func holderOf(stored []byte) (holder string, err error) {
	if stored == nil {
		return "", nil
	}
	var t turn
	if err := json.Unmarshal(stored, &t); err != nil {
		return "", fmt.Errorf("the turn: %w", err)
	}
	return t.Holder, nil
}

// keeper is a process that takes turns.
type keeper struct {
	w       *world
	p       *process
	cell    store.MetaCell
	unclear bool // what became of one of its requests
}

func (w *world) keeper(p *process) *keeper {
	return &keeper{w: w, p: p, cell: store.MetaCell{Store: p.client.Engine().Store, Row: keepersRow, Column: turnColumn}}
}

// keep takes one turn after the other.
func (w *world) keep(p *process) {
	k := w.keeper(p)
	for retry.Sleep(p.ctx, time.Duration(1+p.rand.Int64N(int64(turnEvery)))) == nil && w.lull.wait(p.ctx) == nil {
		if err := k.round(p.ctx); err != nil {
			k.unclear = true
		}
	}
}

// round takes a turn, or ends that of a process that is dead, or its own that it did not know of.
func (k *keeper) round(ctx context.Context) error {
	former, err := k.cell.Read(ctx)
	if err != nil {
		return err
	}
	holder, err := holderOf(former)
	switch {
	case err != nil:
		k.wrong("%v", err)
		return nil
	case holder == "":
		return k.take(ctx, former)
	case holder == k.p.name && !k.unclear:
		k.wrong("has a turn that it has not taken")
	case holder != k.p.name && !k.w.conduct.died(holder):
		return nil
	}
	_, err = k.cell.Replace(ctx, former, store.Comparable(turnOf("")))
	return err
}

// take takes a turn that nobody has, and ends it.
func (k *keeper) take(ctx context.Context, former []byte) error {
	if _, err := k.cell.Replace(ctx, former, turnOf(k.p.name)); !errors.Is(err, percolator.ErrTooLarge) {
		k.wrong("could store what no condition can compare: %v", err)
		return err
	}
	mine := store.Comparable(turnOf(k.p.name))
	taken, err := k.cell.Replace(ctx, former, mine)
	if err != nil || !taken {
		return err
	}
	if err := retry.Sleep(ctx, time.Duration(1+k.p.rand.Int64N(int64(turnTakes)))); err != nil {
		return err
	}
	if now, err := k.cell.Read(ctx); err == nil && !bytes.Equal(now, mine) {
		k.wrong("has its turn, and another one has taken it")
	}
	ended, err := k.cell.Replace(ctx, mine, store.Comparable(turnOf("")))
	k.unclear = k.unclear && !ended // its former requests depend on what was there before
	return err
}

func (k *keeper) wrong(format string, args ...any) {
	if !k.p.Dead() {
		k.w.problem("%s %s (J10)", k.p.name, fmt.Sprintf(format, args...))
	}
}

// finishTurns ends the last turn, and takes one.
func (w *world) finishTurns(ctx context.Context, p *process) {
	k := w.keeper(p)
	former, err := k.cell.Read(ctx)
	if err == nil && former != nil {
		_, err = k.cell.Replace(ctx, former, store.Comparable(turnOf("")))
	}
	if err == nil {
		err = k.round(ctx)
	}
	if err != nil {
		w.problem("nobody can take a turn after the last fault: %v", err)
	}
}
