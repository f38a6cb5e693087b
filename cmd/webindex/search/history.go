package search

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/cmd/webindex/page"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// version is a response that was stored for a URL at some time.
type version struct {
	CommitTS tso.Timestamp
	Time     time.Time
	Raw      string // link
}

// history lists the stored versions of a raw response, newest first, back to the last deletion or
// to the limit. Every snapshot shows the newest version in it and its commit timestamp; the
// snapshot just before that shows the one before. tooOld tells that the store does not keep what is
// older. The digest is written with every response, and is small.
func (s *Server) history(ctx context.Context, url string, limit int) (versions []version, tooOld bool, err error) {
	var opts []percolator.ReadOption
	for len(versions) < limit {
		var newest percolator.Entry
		err := s.view(ctx, func(ctx context.Context, snap *percolator.Snapshot) error {
			newest, err = entryIn(ctx, snap, index.Digest.Cell(url))
			return err
		}, opts...)
		switch {
		case errors.Is(err, percolator.ErrSnapshotTooOld):
			return versions, true, nil
		case errors.Is(err, percolator.ErrNotFound):
			return versions, false, nil
		case err != nil:
			return nil, false, err
		}
		versions = append(versions, version{
			CommitTS: newest.CommitTS,
			Time:     newest.CommitTS.Time(),
			Raw:      link("/raw", "url", url, "at", strconv.FormatInt(int64(newest.CommitTS), 10)),
		})
		opts = []percolator.ReadOption{percolator.AsOfTimestamp(newest.CommitTS - 1)}
	}
	return versions, false, nil
}

// entryIn finds the version of a cell in a snapshot.
func entryIn(ctx context.Context, r percolator.Reader, cell percolator.Cell) (percolator.Entry, error) {
	for e, err := range r.Scan(ctx, cell.Table, percolator.Row(cell.Row), cell.Column) {
		return e, err
	}
	return percolator.Entry{}, percolator.ErrNotFound
}

// raw shows a stored response as it is, as plain text: it comes from strangers.
func (s *Server) raw(w http.ResponseWriter, r *http.Request) {
	url, err := page.Identity(r.URL.Query().Get("url"))
	at, atErr := strconv.ParseInt(r.URL.Query().Get("at"), 10, 64)
	if err != nil || atErr != nil || at <= 0 {
		s.notFound(w, r)
		return
	}
	var stored []byte
	err = s.view(r.Context(), func(ctx context.Context, snap *percolator.Snapshot) error {
		stored, err = index.Response.Get(ctx, snap, url)
		return err
	}, percolator.AsOfTimestamp(tso.Timestamp(at)))
	switch {
	case errors.Is(err, percolator.ErrNotFound), errors.Is(err, percolator.ErrInvalidArgument):
		s.notFound(w, r)
	case errors.Is(err, percolator.ErrSnapshotTooOld):
		s.say(w, http.StatusGone, "Too old", "The store no longer keeps this version.")
	case err != nil:
		s.fail(w, r, err)
	default:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Write(stored) //nolint:errcheck // the reader has gone
	}
}
