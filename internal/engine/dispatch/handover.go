package dispatch

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
	"github.com/gopercolator/percolator/tso/coordination"
)

// A worker that has more ready cells than it runs soon hands some of them to workers that wait for
// work, under topics of their own: only a worker with little to do asks for these, and a version
// without hand-overs never. What is to run together is one hint, so one worker gets it. The oracle
// keeps nothing that is handed over, so a cell is either a waiting worker's or still its own.

// handOverTimeout bounds a request, during which no worker runs for the cells.
const handOverTimeout = 500 * time.Millisecond

// HandOver hands each of the hand-overs to a worker in another process that waits for it, and
// returns how many cells of each were taken: the first ones, as many as fit into a hint of 8 KiB,
// or none. It sends as many of them as fit into one request. A cell that was taken gets lost if its
// taker dies. After an error any may have been taken.
//
// errors.Is(err, tso.ErrUnsupported): the oracle hands nothing over, or Config.DisableHints is set.
func (d *Dispatcher) HandOver(ctx context.Context, handOvers []HandOver) (taken []int, err error) {
	service, ok := d.Hints.service.(coordination.Handover)
	if !ok {
		return nil, fmt.Errorf("percolator: handing notifications over: %w", tso.ErrUnsupported)
	}
	ctx, cancel := context.WithTimeout(ctx, handOverTimeout)
	defer cancel()
	var hints []coordination.Hint
	var cells []int // in each hint
	size := 0
	for _, s := range handOvers[:min(len(handOvers), hintsAtOnce)] {
		data, n := encodeHandOver(s)
		if size += len(data); size > hintsBytes {
			break
		}
		c := s.Notified[0].Cell
		hints, cells = append(hints, coordination.Hint{Topic: d.Hints.handOverTopic(c.Table, c.Column), Data: data}), append(cells, n)
	}
	at, err := service.HandHints(ctx, hints)
	if err != nil {
		return nil, fmt.Errorf("percolator: handing notifications over: %w", err)
	}
	taken = make([]int, len(handOvers))
	for _, i := range at {
		taken[i] = cells[i]
	}
	d.Store.Count.HintsLeft.Add(int64(len(at)))
	return taken, nil
}

// handOverTopic names the hand-overs of a column to the service. No column has a 0x00 in its name.
func (h *hinter) handOverTopic(table, column string) uint64 {
	return h.topic(table, column+"\x00surplus")
}

// encodeHandOver encodes how often the cells were handed over, this time included, by which worker,
// and as many of the cells as fit into a hint: of each the length of the prefix that its row shares
// with the one before, the rest of the row, and how much its timestamp is above the other's.
func encodeHandOver(s HandOver) (data string, cells int) {
	b := binary.BigEndian.AppendUint64([]byte{byte(s.Times)}, s.From)
	var last model.Notification
	for _, n := range s.Notified {
		from, to := last.Cell.Row, n.Cell.Row
		same := 0
		for same < min(len(from), len(to)) && from[same] == to[same] {
			same++
		}
		before := len(b)
		b = binary.AppendUvarint(b, uint64(same))
		b = binary.AppendUvarint(b, uint64(len(to)-same))
		b = binary.AppendVarint(append(b, to[same:]...), int64(n.Timestamp-last.Timestamp))
		if len(b) > hintBytes && cells > 0 {
			return string(b[:before]), cells
		}
		cells, last = cells+1, n
	}
	return string(b), cells
}

// decodeHandOver returns ok false for bytes that no client has sent.
func decodeHandOver(column model.Cell, data string) (s HandOver, ok bool) {
	if len(data) < 10 || data[0] == 0 {
		return s, false
	}
	s.Times, s.From = int(data[0]), binary.BigEndian.Uint64([]byte(data[1:9]))
	rest := []byte(data[9:])
	number := func() (v uint64) {
		v, n := binary.Uvarint(rest)
		if n <= 0 {
			ok = false
			return 0
		}
		rest = rest[n:]
		return v
	}
	last := model.Notification{Cell: column}
	last.Cell.Row = ""
	for ok = true; ok && len(rest) > 0; {
		same, size := number(), number()
		if !ok || same > uint64(len(last.Cell.Row)) || size > uint64(len(rest)) {
			return s, false
		}
		last.Cell.Row, rest = last.Cell.Row[:same]+string(rest[:size]), rest[size:]
		above, n := binary.Varint(rest)
		if n <= 0 {
			return s, false
		}
		rest = rest[n:]
		last.Timestamp += tso.Timestamp(above)
		if last.Timestamp <= 0 || last.Cell.Row == "" || len(last.Cell.Row) > model.MaxRowKeyBytes {
			return s, false
		}
		s.Notified = append(s.Notified, last)
	}
	return s, ok
}
