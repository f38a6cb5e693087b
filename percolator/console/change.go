package console

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/gopercolator/percolator/internal/serve/origin"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// notices tell the next page what was done. A word in its address chooses one, so the address
// cannot make the page say anything else.
var notices = map[string]string{
	"resolved": "The lock is resolved.",
	"alive":    "The lock was left alone: its transaction is alive.",
	"gone":     "The lock had already been resolved.",
	"unparked": "The cell is not parked any more: it was notified anew, retried or dropped meanwhile.",
	"retried":  "The observer will run again when a worker finds the cell.",
	"dropped":  "The change was given up: the observer counts as having run for it.",
}

// done is where a change ends: on a page, with a notice.
type done struct{ page, notice string }

// change wraps a handler that changes something. It requires Config.AllowChanges and a request from
// the console's own pages.
func (h *Handler) change(do func(ctx context.Context, r *http.Request) (done, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !h.cfg.AllowChanges {
			h.fail(w, r, http.StatusForbidden, "This console changes nothing.", "Start it with --allow-changes (Config.AllowChanges), or use the command line.")
			return
		}
		if !origin.OwnForm(r) {
			h.fail(w, r, http.StatusForbidden, "This request does not come from a page of the console.", "Go back to the page and press the button there.")
			return
		}
		ctx, cancel := hurry(r)
		defer cancel()
		r.Body = http.MaxBytesReader(w, r.Body, MaxFormBytes)
		if err := r.ParseForm(); err != nil {
			h.fail(w, r, http.StatusBadRequest, "The form cannot be read.", "It may have at most "+formatBytes(MaxFormBytes)+".")
			return
		}
		result, err := do(ctx, r)
		if err != nil {
			text, remedy, status := explain(err)
			h.fail(w, r, status, text, remedy)
			return
		}
		user, _, _ := r.BasicAuth()
		h.log.InfoContext(ctx, "console: changed", "what", result.notice, "table", r.PostForm.Get("table"), "user", user, "remote", r.RemoteAddr)
		h.poll.renew(ctx, result.page)
		// A relative location is right behind a proxy, too.
		w.Header().Set("Location", result.page+"?done="+result.notice)
		w.WriteHeader(http.StatusSeeOther)
	}
}

// explain says what an error means and what to do.
func explain(err error) (text, remedy string, status int) {
	text = firstLine(err) + "."
	switch {
	case errors.Is(err, percolator.ErrConflict):
		return text, "The cell has changed since the page was loaded: workers try it again by themselves.", http.StatusConflict
	case errors.Is(err, percolator.ErrCorrupt):
		return text, "Look at the row, and at that of the primary, before anything is changed.", http.StatusConflict
	case errors.Is(err, percolator.ErrSchemaMismatch):
		return text, "The table must be one of the schema.", http.StatusNotFound
	case errors.Is(err, percolator.ErrInvalidArgument), errors.Is(err, percolator.ErrTooLarge), errors.Is(err, errForm):
		return text, "Correct the form.", http.StatusBadRequest
	case errors.Is(err, percolator.ErrSnapshotTooOld):
		return text, "Choose a later time; what is older has been collected, or may be at any moment.", http.StatusGone
	case errors.Is(err, context.DeadlineExceeded):
		return text, "The store or the oracle did not answer in time. Try again; percolator tso status shows the oracle.", http.StatusGatewayTimeout
	}
	return text, "The store or the oracle refused. docs/RUNBOOK.md lists the errors.", http.StatusBadGateway
}

// errForm is a form that this console's pages do not send.
var errForm = errors.New("the form is not complete")

// cellOf reads the cell that a form names, and a timestamp with it.
func cellOf(r *http.Request) (cell percolator.Cell, ts tso.Timestamp, err error) {
	cell.Table = r.PostForm.Get("table")
	var errs [3]error
	cell.Row, errs[0] = text.FromShown(r.PostForm.Get("row"))
	cell.Column, errs[1] = text.FromShown(r.PostForm.Get("column"))
	n, parsing := strconv.ParseInt(r.PostForm.Get("ts"), 10, 64)
	errs[2] = parsing
	if err := errors.Join(errs[:]...); err != nil || cell.Table == "" || cell.Row == "" || n <= 0 {
		return cell, 0, errForm
	}
	return cell, tso.Timestamp(n), nil
}

// resolveLock resolves a lock that is still there, unless its transaction may be alive.
func (h *Handler) resolveLock(ctx context.Context, r *http.Request) (done, error) {
	cell, start, err := cellOf(r)
	if err != nil {
		return done{}, err
	}
	for l, err := range h.admin.ListLocks(ctx, cell.Table, percolator.Row(cell.Row), admin.LockOptions{}) {
		if err != nil {
			return done{}, err
		}
		if l.Cell != cell || l.StartTS != start {
			continue
		}
		how, err := h.admin.ResolveLock(ctx, l.Lock)
		if err != nil {
			return done{}, err
		}
		return done{pageLocks, map[model.Resolution]string{
			model.LockAlive: "alive", model.LockGone: "gone", model.LockRolledForward: "resolved", model.LockRolledBack: "resolved",
		}[how]}, nil
	}
	return done{pageLocks, "gone"}, nil
}

// findParked returns what the form names as it is stored, if it is still parked.
func (h *Handler) findParked(ctx context.Context, r *http.Request) (p observers.Parked, ok bool, err error) {
	if p.Cell, p.Through, err = cellOf(r); err != nil {
		return p, false, err
	}
	if p.Observer, err = text.FromShown(r.PostForm.Get("observer")); err != nil || p.Observer == "" {
		return p, false, errForm
	}
	for row, err := range h.admin.ScanPending(ctx, p.Cell.Table, percolator.Row(p.Cell.Row)) {
		if err != nil {
			return p, false, err
		}
		for _, n := range row.Notified {
			for _, s := range row.Parked(n) {
				if s.Cell == p.Cell && s.Observer == p.Observer && s.Through == p.Through {
					return parked(s), true, nil
				}
			}
		}
	}
	return p, false, nil
}

// endParked retries or drops what is parked.
func (h *Handler) endParked(notice string, end func(context.Context, *percolator.Client, observers.Parked) error) func(context.Context, *http.Request) (done, error) {
	return func(ctx context.Context, r *http.Request) (done, error) {
		p, ok, err := h.findParked(ctx, r)
		if err != nil || !ok {
			return done{pageObservers, "unparked"}, err
		}
		return done{pageObservers, notice}, end(ctx, h.c, p)
	}
}
