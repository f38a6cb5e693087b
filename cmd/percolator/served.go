package main

import (
	"context"
	"log/slog"
	"regexp"

	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/tso"
)

// noData is the value of --data that says that nothing is to be looked at.
const noData = "none"

var instanceResource = regexp.MustCompile(`^projects/([^/]+)/instances/([^/]+)$`)

// served returns the function by which a server learns what was handed out in any case:
// from the Bigtable instance whose transactions use the oracle, data, or otherwise from
// the one that holds the record. nil: there is none.
func (f *storeFlags) served(data string, logger *slog.Logger) (func(context.Context) (tso.Timestamp, error), error) {
	project, instance, profile := f.project, f.instance, f.appProfile
	switch parts := instanceResource.FindStringSubmatch(data); {
	case data == noData, data == "" && instance == "":
		return nil, nil
	case parts != nil:
		if project != parts[1] || instance != parts[2] {
			project, instance, profile = parts[1], parts[2], ""
		}
	case data != "":
		return nil, usagef("--data %q is neither projects/P/instances/I nor %q", data, noData)
	}
	return func(ctx context.Context) (tso.Timestamp, error) {
		ts, err := admin.ServedTimestamp(ctx, project, instance, profile, bigtableOptions(ctx)...)
		if err == nil {
			logger.Info("the record is compared with what transactions have used", "project", project, "instance", instance, "served", int64(ts))
		}
		return ts, err
	}, nil
}
