// Starts the viewer on the description that the page names. A file of its own: the policy allows no inline script.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const place = document.getElementById("docs");
  window.SwaggerUIBundle({
    domNode: place,
    url: place.dataset.description,
    deepLinking: true,
    validatorUrl: null,
  });
});
