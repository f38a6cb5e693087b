package loader

import (
	"context"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/internal/transfer"
)

// AbortImport removes what an unfinished import ([Bulk]) has written into a table, and lifts its
// fence. It may be broken off and called again. First it waits, as Bulk does, until every process
// that still imports must know; waiting, if not nil, is told for how long. progress, if not nil, is
// called with the rows that were removed so far. aborted is false if no import is unfinished. What
// an import has written into a table that was dropped since goes with the table.
func AbortImport(ctx context.Context, client *percolator.Client, table string, waiting func(time.Duration), progress func(rows int64)) (aborted bool, err error) {
	return transfer.AbortImport(ctx, client.Engine(), table, waiting, progress)
}
