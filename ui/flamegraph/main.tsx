// Entry: reads the profile from the page and shows it, or says why it cannot.
import "./style.css";
import type { JSX } from "preact";
import { render } from "preact";
import { App } from "./app";
import { useTheme } from "./theme";
import { parseProfile, ProfileError, type Profile } from "./profile";

function read(): Profile | string {
    const source = document.getElementById("profile")?.textContent;
    if (source == null) {
        return "the page has no place for its data";
    }
    try {
        return parseProfile(source);
    } catch (error) {
        if (error instanceof ProfileError) {
            return error.message;
        }
        throw error;
    }
}

function Page(props: { profile: Profile }): JSX.Element {
    return <App profile={props.profile} theme={useTheme()} />;
}

const profile = read();
const app = document.getElementById("app")!;
if (typeof profile === "string") {
    render(
        <main class="failure">
            <div role="alert">
                <h1>This profile cannot be shown</h1>
                <p>The reason: {profile}.</p>
                <p>
                    Write the page again with <code>pyrometer flamegraph FILE -o PAGE</code>.
                </p>
            </div>
        </main>,
        app,
    );
} else {
    document.title = `${profile.title} · flame graph`;
    render(<Page profile={profile} />, app);
}
