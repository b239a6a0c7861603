// A participant on a stub that oapi-codegen makes of the contract, with the library behind it: in memory, so it is an
// example of the stub and not of durability.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/skald-saga/skald/api/participant"
)

// charges implements the generated ServerInterface.
type charges struct{ handler http.Handler }

func (c charges) ExecuteStep(w http.ResponseWriter, r *http.Request, _ Step, _ ExecuteStepParams) {
	c.handler.ServeHTTP(w, r)
}

func (c charges) CompensateStep(w http.ResponseWriter, r *http.Request, _ Step, _ CompensateStepParams) {
	c.handler.ServeHTTP(w, r)
}

func main() {
	var charged atomic.Int64
	handler, err := participant.New(participant.Config{
		Store: participant.Memory(),
		Execute: func(context.Context, *sql.Tx, *participant.Call) (any, error) {
			return map[string]int64{"charge_id": charged.Add(1)}, nil
		},
		Compensate: func(context.Context, *sql.Tx, *participant.Call) (any, error) { return nil, nil },
	})
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("http://" + listener.Addr().String())
	server := &http.Server{Handler: Handler(charges{handler}), ReadHeaderTimeout: time.Minute}
	log.Fatal(server.Serve(listener))
}
