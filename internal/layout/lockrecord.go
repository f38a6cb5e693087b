package layout

import "github.com/gopercolator/percolator/internal/model"

func (l *LockRecord) Export(c model.Cell) model.Lock {
	name := map[Kind]string{KindPut: "put", KindDelete: "delete", KindLock: "lock"}[l.Kind]
	return model.Lock{Cell: c, Primary: l.Primary, StartTS: l.StartTS, Placed: l.Placed, TTL: l.TTL, Session: l.Session, Observed: l.Observed, Kind: name}
}
