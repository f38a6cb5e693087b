package workload

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/percolator"
)

// Setup fills the tables, with a client that nothing happens to.
func (w *Workload) Setup(ctx context.Context, c *percolator.Client) error {
	s := &Session{Workload: w, Client: c, Name: "setup", Dead: func() bool { return false }}
	o := options{kind: "setup"}
	a := s.begin(o)
	tx, err := c.Begin(ctx)
	if err != nil {
		return err
	}
	a.use(tx)
	var errs []error
	for i := range accounts {
		errs = append(errs, a.set(account(i), a.unique(strconv.Itoa(balance))))
	}
	for i := range nodes {
		errs = append(errs, a.set(node(nodeName(i)), a.unique(nodeName((i+1)%nodes))))
	}
	for i := range 2 {
		errs = append(errs, a.set(duty(i), a.unique("on")))
	}
	for i := range wares {
		errs = append(errs, a.set(ware(i, "kind"), []byte("k0")), a.set(ware(i, "serial"), fmt.Appendf(nil, "%02d-0", i)), a.set(ware(i, "state"), a.unique("")))
	}
	errs = append(errs, w.newCards(a), a.receipt())
	if err := errors.Join(errs...); err != nil {
		return err
	}
	ts, err := tx.Commit(ctx)
	s.end(a, o, ts, err, true)
	w.mu.Lock()
	w.past = nil // nothing is right before this
	w.mu.Unlock()
	return errors.Join(err, c.Flush(ctx))
}

// Final reads everything, when all writers have ended: the state in which all unknown outcomes are
// resolved. observed says that the observers have had their time.
func (w *Workload) Final(ctx context.Context, c *percolator.Client, observed bool) error {
	s := &Session{Workload: w, Client: c, Name: "final", Dead: func() bool { return false }}
	var failed error
	s.View(ctx, "final", func(ctx context.Context, r Reader) error {
		failed = errors.Join(r.Everything(ctx, observed), r.checkStock(ctx, w), r.checkLoads(ctx, w.Loaded()), r.checkImports(ctx, w, c.Schema()), r.checkAnnexes(ctx, w, c.Schema()), r.checkPasses(ctx, c.Schema()),
			r.checkPermits(ctx, w), r.checkArchive(ctx, w), r.checkOutbox(ctx, w), r.checkCards(ctx, c.Schema()))
		return failed
	})
	return failed
}

// Everything reads all tables and indexes, and checks what always holds of them.
func (r Reader) Everything(ctx context.Context, observed bool) error {
	found := map[history.Cell]string{}
	for _, table := range Tables {
		es, err := r.scan(ctx, table, "", "")
		if err != nil {
			return err
		}
		for _, e := range es {
			found[e.Cell] = string(e.Value)
		}
	}
	for c, v := range found {
		if observed && c.Table == lists && found[history.Cell{Table: copies, Row: c.Row, Column: "copy"}] != v {
			r.rec.Broken("the copy of %s is not up to date", c)
		}
		if _, there := found[history.Cell{Table: lists, Row: c.Row, Column: "items"}]; observed && c.Table == copies && !there {
			r.rec.Broken("%s is the copy of something that was withdrawn", c)
		}
	}
	if observed {
		if err := r.checkExported(ctx); err != nil {
			return err
		}
	}
	return errors.Join(r.allTotals(ctx, observed), r.checkChains(ctx, observed), r.checkBank(ctx), r.checkRing(ctx), r.checkDuty(ctx), r.checkWide(ctx), r.checkPeople(ctx), r.checkSheets(ctx))
}
