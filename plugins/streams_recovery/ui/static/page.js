// The page's only script: theme, times in the reader's zone, the slider, refreshing while visible, and calls of Airflow's own API.
"use strict";
(() => {
  const THEME = "theme"; // Airflow keeps light, dark or system under this key.
  const EVERY_MS = 10000;
  const SOON_MS = 1500;
  const MANY_DAYS = 3; // from here on hours say nothing
  const STARTED = "streams-recovery-started"; // the run that this tab has started last

  const showTheme = () => {
    let chosen = null;
    try { chosen = localStorage.getItem(THEME); } catch { /* a browser that keeps nothing */ }
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
    else delete document.documentElement.dataset.theme;
  };
  showTheme();
  addEventListener("storage", (event) => { if (event.key === THEME) showTheme(); });

  const two = (number) => String(number).padStart(2, "0");
  const zoned = (at, form) => {
    const d = new Date(at);
    const time = `${two(d.getHours())}:${two(d.getMinutes())}`;
    const day = `${two(d.getDate())} ${d.toLocaleString("en", { month: "short" })}`;
    if (form === "time") return time;
    if (form === "day") return day;
    if (form === "short") return `${day} ${time}`;
    return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${time}:${two(d.getSeconds())}`;
  };
  const offset = (at) => {
    const minutes = -new Date(at).getTimezoneOffset();
    return `UTC${minutes < 0 ? "-" : "+"}${two(Math.floor(Math.abs(minutes) / 60))}:${two(Math.abs(minutes) % 60)}`;
  };
  const localise = (within) => {
    for (const element of within.querySelectorAll("[data-at]")) {
      const at = Number(element.dataset.at);
      element.textContent = zoned(at, element.dataset.form);
      if (element.tagName === "TIME") element.title = `${zoned(at)} ${offset(at)} = ${new Date(at).toISOString()}`;
    }
  };

  const node = (tag, className, text) => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  const airflow = async (path, options) => {
    const root = document.body.dataset.root;
    const answer = await fetch(`${root}../api/v2/${path}`, { credentials: "same-origin", ...options });
    const body = await answer.json().catch(() => ({}));
    if (answer.ok) return body;
    throw Object.assign(new Error(reason(answer.status, body)), { status: answer.status });
  };
  const reason = (status, body) => {
    const detail = body && body.detail;
    if (status === 401) return "You are not logged in, or your login has expired. Log in to Airflow.";
    if (typeof detail === "string") return detail;
    if (Array.isArray(detail)) return detail.map((one) => `${(one.loc || []).slice(-1)}: ${one.msg}`).join("; ");
    return `Airflow answered ${status}.`;
  };
  const sent = (method, value) => ({ method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(value) });
  const part = encodeURIComponent;

  // The slider.
  const slider = () => {
    const form = document.querySelector("form.instant");
    if (!form) return;
    // Slider and timeline are made again with each refresh until somebody chooses an instant.
    const current = () => form.elements.at;
    const chosen = () => {
      form.querySelector(".stage").removeAttribute("data-live");
      document.getElementById("plan").removeAttribute("data-live");
    };
    let waiting = 0;
    let asked = 0;
    const place = () => {
      const range = current();
      const hand = document.getElementById("hand");
      const [low, high, at] = [range.min, range.max, range.value].map(Number);
      const x = 8 + ((at - low) / (high - low || 1)) * 984;
      hand.setAttribute("x1", x);
      hand.setAttribute("x2", x);
      range.setAttribute("aria-valuetext", zoned(at));
    };
    const ask = async () => {
      const number = ++asked;
      const range = current();
      const query = `at=${range.value}&window=${part(form.elements.window.value)}`;
      try {
        const answer = await fetch(`${form.dataset.instant}?${query}`, { credentials: "same-origin" });
        if (number !== asked) return;
        const found = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("plan");
        if (!found) return;
        localise(found);
        document.getElementById("plan").replaceWith(document.adoptNode(found));
        form.elements.time.value = new Date(Number(range.value)).toISOString().replace(".000Z", "Z").replace(/\.\d+Z/, "Z");
        history.replaceState(null, "", `?${query}`);
      } catch { /* the next move asks again */ }
    };
    form.addEventListener("input", (event) => {
      if (event.target !== current()) return;
      chosen();
      place();
      clearTimeout(waiting);
      waiting = setTimeout(ask, 120);
    });
    current().setAttribute("aria-valuetext", zoned(Number(current().value)));
    const hand = document.getElementById("hand");
    const box = form.querySelector(".scroll");
    box.scrollLeft = (Number(hand.getAttribute("x1")) / 1000) * box.scrollWidth - box.clientWidth / 2;
    form.addEventListener("submit", () => { current().disabled = form.elements.time.value !== ""; });
  };

  // What changes, fetched again while somebody looks: the same address, of which the live parts are taken.
  let refreshedAt = Date.now();
  const refresh = async () => {
    countAges();
    if (document.hidden || !document.querySelector("[data-live]")) return;
    const asked = Date.now();
    try {
      const answer = await fetch(location.href, { credentials: "same-origin" });
      if (!answer.ok) return stale(refusedBecause(answer.status));
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      localise(fresh);
      for (const old of document.querySelectorAll("[data-live]")) {
        const now = fresh.getElementById(old.id);
        if (!now || !now.hasAttribute("data-live") || old.contains(document.activeElement)) continue;
        const open = [...old.querySelectorAll("details")].map((details) => details.open);
        now.querySelectorAll("details").forEach((details, number) => { details.open = Boolean(open[number]); });
        if (now.innerHTML !== old.innerHTML) old.replaceWith(document.adoptNode(now));
      }
      refreshedAt = asked;
      stale("");
    } catch {
      stale("Airflow does not answer.");
    }
  };
  const refusedBecause = (status) => {
    if (status === 401) return "log in again.";
    return status === 403 ? "Airflow refuses it. Log in again, as somebody with the right to see it." : `Airflow answered ${status}.`;
  };
  const stale = (why) => {
    const banner = document.getElementById("stale");
    const text = why ? `Not refreshed since ${zoned(refreshedAt)}: ${why}` : "";
    if (banner.textContent !== text) banner.textContent = text;
  };
  // The age of what is shown, in the words of the server, counted on while nothing new comes.
  const countAges = () => {
    for (const element of document.querySelectorAll("[data-age]")) {
      const text = `${span((Date.now() - Number(element.dataset.age)) / 1000)} ago`;
      if (element.textContent !== text) element.textContent = text;
    }
  };
  const span = (seconds) => {
    let rest = Math.max(0, seconds < 600 ? Math.round(seconds) : Math.round(seconds / 60) * 60);
    const parts = [[86400, "days"], [3600, "h"], [60, "min"], [1, "s"]].map(([length, unit]) => {
      const count = Math.floor(rest / length);
      rest -= count * length;
      return [count, unit === "days" && count === 1 ? "day" : unit];
    });
    const first = parts.findIndex(([count]) => count);
    if (first < 0) return "0 s";
    const shown = parts.slice(first, first + (parts[0][0] >= MANY_DAYS ? 1 : 2)).filter(([count]) => count);
    return shown.map(([count, unit]) => `${count} ${unit}`).join(" ");
  };

  // Runs in progress, as Airflow tells them, with the approval that one of them waits for.
  const runsOf = (section) => {
    const known = JSON.parse(section.dataset.runs);
    const place = section.querySelector(".live");
    // Runs that were seen here stay until their end is shown.
    const watched = new Map();
    try {
      const started = JSON.parse(sessionStorage.getItem(STARTED) || "null");
      if (started && [...known.own, ...known.shared].includes(started.dag_id)) watched.set(`${started.dag_id} ${started.dag_run_id}`, started);
    } catch { /* nothing was started here */ }
    const mine = (run) => known.own.includes(run.dag_id) || (run.conf && (run.conf.application === known.application || run.conf.source === known.application));
    const load = async () => {
      const dags = [...known.own, ...known.shared];
      if (!dags.length || document.hidden || place.contains(document.activeElement)) return;
      const found = await airflow("dags/~/dagRuns/list", sent("POST", { dag_ids: dags, states: ["queued", "running"], page_limit: 50 }));
      const shown = [];
      const runs = found.dag_runs.filter(mine);
      for (const [key, run] of watched) {
        if (runs.some((one) => `${one.dag_id} ${one.dag_run_id}` === key)) continue;
        runs.push(run);
      }
      for (const run of runs) {
        const key = `${run.dag_id} ${run.dag_run_id}`;
        // One run that cannot be read hides no other; one that was deleted is no longer watched.
        try {
          shown.push(await runOf(run));
          watched.set(key, run);
        } catch (error) {
          if (error.status === 404) watched.delete(key);
          else shown.push(unreadNode(run, error.message));
        }
      }
      const fresh = node("div");
      fresh.append(...(shown.length ? shown : [node("p", "none", "No run is in progress.")]));
      // What has not changed is left alone: it would be read out again.
      if (fresh.textContent !== place.textContent) place.replaceChildren(...fresh.children);
    };
    const runOf = async (listed) => {
      const path = `dags/${part(listed.dag_id)}/dagRuns/${part(listed.dag_run_id)}`;
      const [run, tasks, questions] = await Promise.all([
        airflow(path),
        airflow(`${path}/taskInstances?limit=200`),
        airflow(`${path}/hitlDetails?response_received=false`).catch(() => ({ hitl_details: [] })),
      ]);
      return runNode(run, tasks.task_instances, questions.hitl_details, path);
    };
    const unreadNode = (run, why) => {
      const box = node("article", "run");
      const title = node("h3", "", run.dag_id);
      title.append(node("span", "", run.dag_run_id));
      box.append(title, node("p", "warning", `This run cannot be read: ${why}`));
      return box;
    };
    const runNode = (run, tasks, questions, path) => {
      const box = node("article", "run");
      const title = node("h3", "", run.dag_id);
      title.append(node("span", "", run.dag_run_id), node("span", `state ${run.state}`, run.end_date ? `ended: ${run.state}` : run.state));
      const steps = node("ol", "steps");
      const order = (task) => task.start_date || "9999";
      for (const task of [...tasks].sort((a, b) => order(a).localeCompare(order(b)))) {
        if (task.state === "skipped" || task.state === "removed") continue;
        const state = task.state || "waiting";
        const took = task.duration ? `, ${Math.round(task.duration)} s` : "";
        steps.append(node("li", state, `${task.task_id}: ${state.replace("_", " ")}${took}`));
      }
      box.append(title, steps);
      for (const question of questions) box.append(questionNode(run, question, path));
      return box;
    };
    // Why no approval is offered here, empty when it is. Whoever may answer may reject.
    const refusal = (run, target) => {
      const rule = known.approval;
      if (target !== known.application) return `It is approved on the page of ${target}, by those who may approve its runs.`;
      if (rule.refused) return `Your approval would not count: ${rule.refused}.`;
      if (!rule.exclude_trigger) return "";
      if (!run.triggering_user_name) return "Whether your approval would count cannot be known: it is not known who triggered this run.";
      return run.triggering_user_name === rule.user ? `Your approval would not count: ${rule.user} triggered this run.` : "";
    };
    const questionNode = (run, question, path) => {
      const box = node("div", "question");
      box.append(node("strong", "", question.subject), node("pre", "", question.body || ""));
      if (!known.answers.includes(run.dag_id)) {
        box.append(node("p", "none", "It waits for an approval by somebody who may give it."));
        return box;
      }
      // A DAG of one application has no such param: whatever a run of it was triggered with beside its params chooses nothing.
      const target = (!known.own.includes(run.dag_id) && run.conf && run.conf.application) || known.application;
      const why = refusal(run, target);
      const label = node("label", "", `To approve, type ${target}: `);
      const typed = node("input");
      label.append(typed);
      const yes = node("button", "button strong", "Approve");
      const no = node("button", "button", "Reject");
      const result = node("p", "result");
      result.setAttribute("role", "status");
      yes.disabled = true;
      typed.addEventListener("input", () => { yes.disabled = typed.value !== target; });
      const task = question.task_instance;
      const answer = async (choice) => {
        yes.disabled = no.disabled = true;
        result.textContent = "Sending. An answer to a new question is kept for some seconds until Airflow can take it.";
        const here = `${path}/taskInstances/${part(task.task_id)}/${task.map_index}/hitlDetails`;
        try {
          // Airflow takes an answer to whatever the task asks by now: this page may be from before its run was cleared.
          const asked = choice === "Approve" ? await airflow(here) : question;
          if (asked.subject !== question.subject || asked.body !== question.body) {
            document.activeElement.blur();
            throw new Error("Nothing was sent: the plan was made again after it was shown here, and is another one. The new one comes in some seconds.");
          }
          await airflow(here, sent("PATCH", { chosen_options: [choice], params_input: {} }));
          result.textContent = choice === "Approve" ? "Approved." : "Rejected. Nothing was changed.";
        } catch (error) {
          result.textContent = error.message;
          no.disabled = false;
          yes.disabled = typed.value !== target;
        }
      };
      yes.addEventListener("click", () => answer("Approve"));
      no.addEventListener("click", () => answer("Reject"));
      const buttons = node("p", "actions");
      if (!why) buttons.append(yes);
      buttons.append(no);
      box.append(why ? node("p", "none", why) : label, buttons, result);
      return box;
    };
    const again = () => load().catch((error) => place.replaceChildren(node("p", "warning", error.message)));
    again();
    setInterval(again, EVERY_MS);
  };

  // A form that starts a DAG.
  const starts = (form) => {
    const result = form.querySelector(".result");
    // What has to be typed is the id of the application that was chosen.
    const target = form.querySelector("select[name=application]");
    const confirmation = form.querySelector("label[for=f-confirm]");
    if (target && confirmation) {
      const asked = confirmation.textContent;
      const ask = () => {
        const id = target.selectedOptions[0].dataset.id;
        confirmation.textContent = id ? `Confirmation: type ${id}` : asked;
      };
      target.addEventListener("change", ask);
      ask();
    }
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const conf = {};
      for (const field of form.elements) {
        if (!field.name) continue;
        if (field.dataset.kind === "switch") conf[field.name] = field.checked;
        else if (field.value !== "") conf[field.name] = field.value;
      }
      const button = form.querySelector("button[type=submit]");
      button.disabled = true;
      result.textContent = "Starting.";
      try {
        const run = await airflow(`dags/${part(form.dataset.dag)}/dagRuns`, sent("POST", { logical_date: null, conf }));
        result.textContent = `Started: ${run.dag_run_id}.`;
        try { sessionStorage.setItem(STARTED, JSON.stringify({ dag_id: run.dag_id, dag_run_id: run.dag_run_id })); } catch { /* it is not followed then */ }
        location.href = form.dataset.after;
      } catch (error) {
        result.textContent = error.message;
        button.disabled = false;
      }
    });
  };

  // Airflow's frame opens no new tab for what is in it. Its own document does.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[target=_blank]");
    if (!link || self === top) return;
    event.preventDefault();
    const outside = Object.assign(top.document.createElement("a"), { href: link.href, target: "_blank", rel: link.rel });
    outside.click();
  });

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button.copy");
    if (!button) return;
    try { await navigator.clipboard.writeText(button.dataset.copy); button.textContent = "Copied"; } catch { button.textContent = "Select it and copy"; }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });

  document.addEventListener("DOMContentLoaded", () => {
    localise(document);
    slider();
    for (const section of document.querySelectorAll("[data-runs]")) runsOf(section);
    for (const form of document.querySelectorAll("form.start")) starts(form);
    setInterval(refresh, EVERY_MS);
    if (document.querySelector("[data-soon]")) setTimeout(() => location.reload(), SOON_MS);
  });
})();
