package simulation

import (
	"context"
	"errors"
	"regexp"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/simulated"
	"github.com/gopercolator/percolator/emulator_test/internal/workload"
	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
)

// epilogue is what must stop programs, at the end, when everything else was judged: mistakes of
// operators, damage, and an instance that belongs to programs of a later version.
func (w *world) epilogue(ctx context.Context) {
	w.foundWithBadTiming(ctx)
	p, err := w.open(ctx, "epilogue")
	if err != nil {
		w.problem("%v", err)
		return
	}
	w.damageJournal(ctx, p)
	w.upgradeSchema(ctx, p)
	w.suspendUnseen(ctx, p)
	p.kill()
	_ = p.leave()
}

// foundWithBadTiming has somebody create an instance in which knowledge grows old before a request
// does (I16).
func (w *world) foundWithBadTiming(ctx context.Context) {
	cfg := w.cfg.store
	cfg.Trace, cfg.Sent, cfg.Applied = nil, nil, nil
	cluster := simulated.NewCluster(cfg)
	age := time.Second + time.Duration(w.dice.next("founder").Int64N(int64(20*time.Second)))
	err := meta.ApplySchemaOn(ctx, tables{cluster}, cluster.Connect("founder"), workload.Schema(percolator.Timing{RequestLifetime: age + time.Second, MetaMaxAge: age}))
	if !errors.Is(err, percolator.ErrInvalidArgument) {
		w.problem("an instance whose knowledge is no older than %v, and whose requests are, is created: %v", age, err)
	}
}

// damageJournal damages the last row of the journal, which must stop collection (J6). Beside passes
// nobody reads it.
func (w *world) damageJournal(ctx context.Context, p *process) {
	if !p.client.Engine().Meta.ByJournal() {
		return
	}
	if err := w.touch(ctx, p); err != nil {
		w.problem("the last transaction: %v", err)
		return
	}
	if err := p.client.Flush(ctx); err != nil {
		w.problem("the last transaction: %v", err)
	}
	key, mut := "", store.NewMutation(1)
	err := w.cluster.Visit(model.JournalTable, func(r layout.Row) bool {
		for _, it := range r.Of(layout.JournalFamily) {
			if entries, err := journal.DecodeBatch(it.Value); err == nil && len(entries) > 0 {
				key, mut = r.Key, store.NewMutation(1)
				mut.Put(layout.JournalFamily, it.Column, store.MetaTimestamp, []byte("damaged"))
			}
		}
		return true
	})
	if err == nil {
		err = p.client.Engine().Store.Mutate(ctx, model.JournalTable, key, mut)
	}
	if err != nil {
		w.problem("damaging %q: %v", key, err)
		return
	}
	w.advance(ctx, p, w.longAfter())
	collector, err := admin.New(p.client).NewCollector(w.collectorConfig())
	for tries := 0; err == nil || tries < cyclesMost && errors.Is(err, context.DeadlineExceeded); tries++ { // a slow disk
		if _, err = collector.Collect(ctx); err == nil {
			break
		}
	}
	if !errors.Is(err, percolator.ErrCorrupt) {
		w.problem("collection beside a damaged row of the journal: %v", err)
	}
}

// touch commits a transaction that nobody judges.
func (w *world) touch(ctx context.Context, p *process) error {
	_, err := p.client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
		return tx.Set(workload.Stray(p.rand)[0], []byte("epilogue"))
	})
	return err
}

var schemaFormat = regexp.MustCompile(`"Format":\d+`)

// upgradeSchema has a program of a later version store the schema in a format of its own. One drain
// later no other program commits (J9).
func (w *world) upgradeSchema(ctx context.Context, p *process) {
	cell := store.MetaCell{Store: p.client.Engine().Store, Row: meta.RowKey, Column: "schema"}
	stored, err := cell.Read(ctx)
	if err == nil {
		mut := store.NewMutation(1)
		mut.Put(layout.MetaFamily, cell.Column, store.MetaTimestamp, schemaFormat.ReplaceAll(stored, []byte(`"Format":1000`)))
		err = cell.Store.Mutate(ctx, model.MetaTable, cell.Row, mut)
	}
	if err == nil {
		err = retry.Sleep(ctx, catalog.DrainTime(catalog.EffectiveTiming(w.cfg.Timing)))
	}
	if err != nil {
		w.problem("upgrading the schema: %v", err)
		return
	}
	if err := w.touch(ctx, p); !errors.Is(err, percolator.ErrSchemaMismatch) {
		w.problem("a program commits by a schema of a later format: %v", err)
	}
}

// suspendUnseen suspends the machine of the leader of the oracle, and none of its clocks shows that
// when it continues, without a way to the store. A client that has a timestamp refuses what the
// former leader serves by its lease: another client has got more from its successor by then (I1).
func (w *world) suspendUnseen(ctx context.Context, p *process) {
	w.advance(ctx, p, time.Minute) // an oracle that is ahead of its clocks says so
	witness, err := w.oracleLine("witness").dial(ctx)
	if err != nil {
		w.problem("the oracle at the end: %v", err)
		return
	}
	defer witness.Close()
	idle, err := w.oracleLine("idle").dial(ctx) // it has a timestamp
	if err != nil {
		w.problem("the oracle at the end: %v", err)
		return
	}
	defer idle.Close()
	s := w.oracle.at(w.oracle.leading())
	if s == nil || !s.up.suspend(false) {
		return
	}
	s.gate.shut()
	s.store.cut.Store(true)
	_ = retry.Sleep(ctx, 3*oracleLease)
	served, err := witness.Next(ctx)
	if err != nil {
		w.problem("the successor at the end: %v", err)
	}
	s.up.resume(false, false)
	s.gate.open()
	if got, err := idle.Next(ctx); err == nil && got <= served {
		w.problem("a client got %d, although %d was served before (I1)", got, served)
	}
	s.store.cut.Store(false)
}

func (w *world) oracleLine(process string) *oracleLine {
	return &oracleLine{oracle: w.oracle, process: process, gate: new(gate), rate: w.oracleRate}
}
