package dispatch

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/tso"
)

// A worker that has more ready cells than it runs soon hands some of them to workers that wait for
// work, under topics of their own: only a worker with little to do asks for these, and a version
// without hand-overs never. The oracle keeps nothing that is handed over, so a cell is either a
// waiting worker's or still its own.

// handOverTimeout bounds a request: meanwhile nobody runs for the cells.
const handOverTimeout = 500 * time.Millisecond

// HandOver hands notifications to workers in other processes that wait for them, and returns the
// indexes of those that were taken, in ascending order. It sends as many as fit into one request. A
// taken one gets lost if its taker dies. After an error any of them may have been taken.
//
// errors.Is(err, tso.ErrUnsupported): the oracle hands nothing over, or Config.DisableHints is set.
func (d *Dispatcher) HandOver(ctx context.Context, surplus []model.Heard) (taken []int, err error) {
	service, ok := d.Hints.service.(tso.Handover)
	if !ok {
		return nil, fmt.Errorf("percolator: handing notifications over: %w", tso.ErrUnsupported)
	}
	ctx, cancel := context.WithTimeout(ctx, handOverTimeout)
	defer cancel()
	var hints []tso.Hint
	size := 0
	for _, s := range surplus[:min(len(surplus), hintsAtOnce)] {
		h := tso.Hint{Topic: d.Hints.surplusTopic(s.Cell.Table, s.Cell.Column), Data: encodeSurplus(s)}
		if size += len(h.Data); size > hintsBytes {
			break
		}
		hints = append(hints, h)
	}
	taken, err = service.HandHints(ctx, hints)
	if err != nil {
		return nil, fmt.Errorf("percolator: handing notifications over: %w", err)
	}
	d.Store.Count.HintsLeft.Add(int64(len(taken)))
	return taken, nil
}

// surplusTopic names a column's surplus to the service. No column has a 0x00 in its name.
func (h *hinter) surplusTopic(table, column string) uint64 {
	return h.topic(table, column+"\x00surplus")
}

// encodeSurplus encodes how often it was handed over, this time included, by whom, and the
// notification.
func encodeSurplus(s model.Heard) string {
	return string(binary.BigEndian.AppendUint64([]byte{byte(s.HandOvers)}, s.From)) + encodeHint(s.Notification)
}

func decodeSurplus(column model.Cell, data string) (h model.Heard, ok bool) {
	if len(data) < 9 {
		return h, false
	}
	n, ok := decodeHint(column, data[9:])
	return model.Heard{Notification: n, HandOvers: int(data[0]), From: binary.BigEndian.Uint64([]byte(data[1:9]))}, ok && data[0] > 0
}
