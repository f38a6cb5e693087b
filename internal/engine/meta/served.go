package meta

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// metaNow is the oracle's time when the safepoint was announced: a witness, outside the oracle's
// own record, of how far it had come.
const metaNow = "now"

// ServedTimestamp returns a timestamp that the oracle of an instance is known to have handed out:
// the greatest in percolator_meta, of collection and of holds, or 0 if there is none. appProfile is
// the one to read with, "" for the default one. An oracle's server that finds a smaller high-water
// mark in its record must not start (tso.ServerConfig.Served): the record was lost or restored from
// a backup, and the timestamps that it would hand out again lie below committed data. Errors: those
// of the store, also when the instance has no percolator_meta, ErrCorrupt, and ErrSchemaMismatch if
// a program of another format has stored the schema.
func ServedTimestamp(ctx context.Context, project, instance, appProfile string, opts ...option.ClientOption) (tso.Timestamp, error) {
	m, err := readFrom(ctx, project, instance, appProfile, opts)
	switch {
	case errors.Is(err, model.ErrCorrupt):
		return 0, permanent(err, codes.DataLoss)
	case errors.Is(err, model.ErrSchemaMismatch):
		return 0, permanent(err, codes.Unimplemented)
	case err != nil:
		return 0, err
	}
	served := max(m.Safepoint, m.Watermark, m.Now)
	for _, h := range m.Holds {
		if h.Timestamp != released { // and Expires lies in the future
			served = max(served, h.Timestamp)
		}
	}
	return served, nil
}

// permanent is err with a code by which a server does not retry.
func permanent(err error, code codes.Code) error {
	return fmt.Errorf("%w: %w", err, status.Error(code, "it will not go away by itself"))
}

func encodeTimestamp(ts tso.Timestamp) []byte { return binary.BigEndian.AppendUint64(nil, uint64(ts)) }
