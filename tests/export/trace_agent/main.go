// The receiver of the real trace-agent, alone: it takes profiles on a port of its own and forwards
// them to the intake it is given, as the Datadog Agent does.
//
//	trace_agent -intake http://127.0.0.1:PORT/api/v2/profile [-socket PATH]
//
// Prints the port it listens on. Ends when its standard input does.
package main

import (
	"flag"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/DataDog/datadog-agent/pkg/trace/api"
	"github.com/DataDog/datadog-agent/pkg/trace/config"
	"github.com/DataDog/datadog-agent/pkg/trace/sampler"
	"github.com/DataDog/datadog-agent/pkg/trace/telemetry"
	"github.com/DataDog/datadog-agent/pkg/trace/timing"
	"github.com/DataDog/datadog-go/v5/statsd"
)

func freePort() int {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

func main() {
	intake := flag.String("intake", "", "where profiles are forwarded to")
	socket := flag.String("socket", "", "a unix socket to listen on, too")
	flag.Parse()

	conf := config.New()
	conf.Hostname = "the-agents-host"
	conf.DefaultEnv = "the-agents-env"
	conf.AgentVersion = "7.99.0"
	conf.ReceiverHost = "127.0.0.1"
	conf.ReceiverPort = freePort()
	conf.ReceiverSocket = *socket
	conf.Endpoints[0].APIKey = "the-agents-key"
	conf.ProfilingProxy.DDURL = *intake

	client := &statsd.NoOpClient{}
	receiver := api.NewHTTPReceiver(conf, sampler.NewDynamicConfig(),
		make(chan *api.Payload, 10), make(chan *api.PayloadV1, 10), nil,
		telemetry.NewNoopCollector(), client, timing.New(client))
	receiver.Start()
	fmt.Println(conf.ReceiverPort)
	_, _ = io.Copy(io.Discard, os.Stdin)
}
