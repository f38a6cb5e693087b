package admin

import (
	"context"

	"github.com/gopercolator/percolator/internal/engine/membership"
	"github.com/gopercolator/percolator/percolator/model"
)

// Workers lists the live workers: those whose lease lasts and whose session has not ended, as far
// as the oracle says. It costs one read, one timestamp, and one question to an oracle that keeps
// sessions. It leaves the entries of dead workers to the workers.
func (a *Admin) Workers(ctx context.Context) (model.Workers, error) {
	seen, err := membership.Directory{Engine: a.e}.Inspect(ctx)
	return seen.Workers, err
}

// Reports lists the reports of live clients and workers, by host and process, at most MaxReports:
// those that have not expired and whose session has not ended, as far as the oracle says. It costs
// one read, one question to an oracle that keeps sessions, and a timestamp if the client has not
// got any lately. It omits what it cannot decode.
func (a *Admin) Reports(ctx context.Context) ([]model.Report, error) {
	return membership.Reports(ctx, a.e)
}
