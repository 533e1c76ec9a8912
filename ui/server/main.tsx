// Entry of the page that `pyrometer serve` shows.
import "../flamegraph/style.css";
import "./style.css";
import { render } from "preact";
import { ServerApp } from "./app";

render(<ServerApp />, document.getElementById("app")!);
